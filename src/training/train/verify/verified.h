// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace lockstep::train {

// Thrown when --verify-strategies has completed and the table has been printed. It leaves the
// program's body, which has nothing more to do, and run() returns exit_code().
class Verified : public std::exception {
 public:
  explicit Verified(bool agree) : agree_(agree) {}

  // 0: every strategy agrees with one process; 1: at least one does not.
  int exit_code() const { return agree_ ? 0 : 1; }
  const char* what() const noexcept override { return "verification of strategies completed"; }

 private:
  bool agree_;
};

}  // namespace lockstep::train
