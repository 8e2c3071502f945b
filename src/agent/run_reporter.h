// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "agent/leader.h"
#include "agent/write_faults.h"
#include "contract/run_directory.h"
#include "contract/run_state.h"
#include "os/environment.h"
#include "plan/plan.h"

namespace lockstep::agent {

// The word for what a leader does.
contract::RunPhase phase_of(const Leader& leader);

// Tells everyone who sees the run directory how the run is doing: RUN/state.json, at every change
// and every few seconds. A directory that cannot be written stops no run.
class RunReporter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RunReporter(const plan::LaunchPlan& plan,
              const os::Environment& environment,
              WriteFaults& faults);

  // Writes if something has changed since the last time, or that was kHeartbeatSeconds ago.
  void report(const Leader& leader, Time now);

  // The run is over, and its Slurm job waits for its next turn.
  void report_requeued();

 private:
  void write();

  contract::RunDirectory directory_;
  contract::RunState state_;
  std::optional<Time> last_;
  WriteFaults& faults_;
};

}  // namespace lockstep::agent
