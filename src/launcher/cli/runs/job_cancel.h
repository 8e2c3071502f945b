// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/cli/runs/cancel.h"
#include "launcher/cli/runs/jobs.h"

namespace lockstep::cli {

// Output and clock of cancel_job: `tell` prints a line, `wait` updates the progress line.
struct CancelContext {
  CancelClock clock;
  std::function<void(const std::string&)> tell;
  std::function<void(const std::string&)> wait;
};

// Ends a job. A lockstep run in the job is stopped first, so that its workers can save a
// checkpoint. If the job does not end soon after that, or has no run, Slurm cancels it. Returns
// when the job has ended. Throws an Error: 64 for a job of another user or for a grace period
// without a run, 69 if the job does not end.
void cancel_job(const slurm::Client& client,
                const JobArgument& job,
                const CancelOptions& options,
                const CancelContext& context);

}  // namespace lockstep::cli
