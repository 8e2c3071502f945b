// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/os/process.h"
#include "launcher/supervisor/failure/failure.h"

namespace lockstep::supervisor {

// Decides whether another attempt follows the failure of a worker. Without I/O.
class RestartPolicy {
 public:
  explicit RestartPolicy(int maximum) : maximum_(maximum) {}

  struct Answer {
    bool is_again = false;
    std::string why_not;  // if the user would expect a restart; else empty
  };

  // `progress` is the step of the newest checkpoint in the run directory.
  Answer ask(const Failure& failure, long long progress) const;

  // Another attempt starts: remembers this failure. count() only if the restart counts against
  // --max-restarts.
  void remember(const Failure& failure, long long progress);
  void count() { ++used_; }

  int used() const { return used_; }

 private:
  // The end of an attempt, to detect that the next one ends at the same point.
  struct AttemptEnd {
    std::string who;
    os::ExitStatus status;
    std::vector<std::string> last_lines;
    long long progress = 0;

    bool operator==(const AttemptEnd&) const = default;
  };

  int maximum_;
  int used_ = 0;
  std::optional<AttemptEnd> last_end_;
};

}  // namespace lockstep::supervisor
