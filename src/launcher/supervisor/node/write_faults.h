// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace lockstep::supervisor {

// Write errors of a run, for example because of a full disk. Only the first one is printed, because
// a thousand workers would repeat it. The run continues. Not thread-safe.
class WriteFaults {
 public:
  explicit WriteFaults(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

  // "cannot write FILE: No space left on device"
  void take(const std::string& sentence) {
    if (!has_reported_) {
      has_reported_ = true;
      say_(sentence + "; the run continues, but its logs, events and state may be incomplete");
    }
  }

  bool has_reported() const { return has_reported_; }

 private:
  std::function<void(const std::string&)> say_;
  bool has_reported_ = false;
};

}  // namespace lockstep::supervisor
