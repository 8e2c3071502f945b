// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>

#include "os/signals.h"

namespace lockstep::agent {

// The word that a guard puts with a signal of Slurm's when it passes it on.
inline constexpr int kFromSlurm = 1;

// Whether Slurm's own process on this node has sent it.
bool is_from_slurm(const os::SignalFd::Arrival& arrival);

// Tells what a signal asks of an agent, so that workers get it once.
//
// Slurm signals the task alone (proctrack/cgroup), or all processes below it, workers too
// (proctrack/linuxproc). A guard passes on what it gets, a moment later where it is from Slurm: if
// the agent has it from Slurm itself by then, so have the workers.
class Arrivals {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Meaning {
    Ask,       // somebody asks this run
    OnlyHere,  // Slurm tells every node by itself: this is for the workers of this one
    Told,      // the same, and they have it already
    Again,     // was told a moment ago
  };

  Meaning read(const os::SignalFd::Arrival& arrival, Clock::time_point now);

 private:
  std::map<int, Clock::time_point> told_;
};

}  // namespace lockstep::agent
