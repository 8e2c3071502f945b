// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/cancel.h"
#include "cli/jobs.h"

namespace lockstep::cli {

// What ends a job: lines for the user, the words of a progress line, and the clock.
struct CancelVoice {
  CancelClock clock;
  std::function<void(const std::string&)> tell;
  std::function<void(const std::string&)> wait;
};

// Ends a job. A run of lockstep's in it is asked first, so that its workers may save what they
// have; when the job does not end by itself soon after that, and where there is no such run, Slurm
// ends it. Returns when the job is over. Throws an Error (64) for a job that is not the user's, or
// for a grace that nobody could keep, and (69) when it does not end.
void cancel_job(const slurm::Client& client,
                const Job& job,
                const CancelWishes& wishes,
                const CancelVoice& voice);

}  // namespace lockstep::cli
