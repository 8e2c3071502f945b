// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/failure.h"
#include "os/process.h"

namespace lockstep::agent {

// Whether another attempt follows the failure of a worker. Pure.
class RestartPolicy {
 public:
  explicit RestartPolicy(int most) : most_(most) {}

  struct Answer {
    bool is_again = false;
    std::string why_not;  // where the user would expect another; else empty
  };

  // `progress` is how far the workers had come, as the run directory shows it.
  Answer ask(const Failure& failure, long long progress) const;

  // Another attempt begins: how this one died, and whether it counts.
  void remember(const Failure& failure, long long progress);
  void count() { ++used_; }

  int used() const { return used_; }

 private:
  // How an attempt died, to tell whether the next one dies at the same place.
  struct Place {
    std::string who;
    os::ExitStatus status;
    std::vector<std::string> last_lines;
    long long progress = 0;

    bool operator==(const Place&) const = default;
  };

  int most_;
  int used_ = 0;
  std::optional<Place> last_place_;
};

}  // namespace lockstep::agent
