// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>

#include "common/os/signals.h"

namespace lockstep::supervisor {

// The value (sigqueue) that a guard attaches to a signal from Slurm when it forwards it.
inline constexpr int kFromSlurm = 1;

// Whether slurmstepd, the process of Slurm on this node, has sent the signal.
bool is_from_slurm(const os::SignalFd::Arrival& arrival);

// Classifies a signal that an agent receives, so that workers get it only once.
//
// Slurm signals either the task alone (proctrack/cgroup), or all processes below it including the
// workers (proctrack/linuxproc). The task is the guard. It forwards every signal to the agent,
// those from Slurm with a short delay: if the agent has received the signal from Slurm directly by
// then, so have the workers.
class SignalClassifier {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Meaning {
    Ask,       // a request to the whole run, from a user or a program
    OnlyHere,  // from Slurm, which signals every node: for the workers of this node
    Direct,    // from Slurm, and the workers of this node have received it directly
    Again,     // the forwarded copy of a signal that was `Direct`
  };

  Meaning read(const os::SignalFd::Arrival& arrival, Clock::time_point now);

 private:
  std::map<int, Clock::time_point> received_;
};

}  // namespace lockstep::supervisor
