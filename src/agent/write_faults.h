// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace lockstep::agent {

// Files of a run that cannot be written, as of a full disk: the first of them is told, as those of
// a thousand workers would say the same. The run goes on. One thread.
class WriteFaults {
 public:
  explicit WriteFaults(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

  // "cannot write FILE: No space left on device"
  void take(const std::string& sentence) {
    if (!has_told_) {
      has_told_ = true;
      say_(sentence + "; the run goes on, and its logs, events and state may have gaps");
    }
  }

  bool has_told() const { return has_told_; }

 private:
  std::function<void(const std::string&)> say_;
  bool has_told_ = false;
};

}  // namespace lockstep::agent
