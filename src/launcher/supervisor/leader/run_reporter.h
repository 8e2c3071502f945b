// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "common/contract/run_directory.h"
#include "common/contract/run_state.h"
#include "common/os/environment.h"
#include "launcher/plan/plan.h"
#include "launcher/supervisor/leader/leader.h"
#include "launcher/supervisor/node/write_faults.h"

namespace lockstep::supervisor {

// The state of the run in state.json.
contract::RunPhase phase_of(const Leader& leader);

// Writes the state of the run to RUN/state.json, at every change and every few seconds, for
// lockstep status and other readers. A write error does not end the run.
class RunReporter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RunReporter(const plan::LaunchPlan& plan,
              const os::Environment& environment,
              WriteFaults& faults);

  // Writes if the state has changed, or if the last write was kHeartbeatSeconds ago.
  void report(const Leader& leader, Time now);

  // The run is over in this allocation, and its Slurm job is requeued.
  void report_requeued();

 private:
  void write();

  contract::RunDirectory directory_;
  contract::RunState state_;
  std::optional<Time> last_;
  WriteFaults& faults_;
};

}  // namespace lockstep::supervisor
