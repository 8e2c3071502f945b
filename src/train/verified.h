// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace lockstep::train {

// --verify-strategies is through. Leaves the program's body for run(), as the program has nothing
// more to do; the table is printed already.
class Verified : public std::exception {
 public:
  explicit Verified(bool agree) : agree_(agree) {}

  // 0: every strategy trains as one process does; 1: one does not.
  int exit_code() const { return agree_ ? 0 : 1; }
  const char* what() const noexcept override { return "strategies were verified"; }

 private:
  bool agree_;
};

}  // namespace lockstep::train
