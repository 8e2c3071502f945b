// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "contract/pace.h"

namespace lockstep::slurm {

// How long before the time limit Slurm shall tell the job: the SECONDS of
// `#SBATCH --signal=B:USR1@SECONDS`. Slurm looks at limits every 30 s, so that the signal comes up
// to so much later than asked; then a step must end, a checkpoint be written, three times as long
// as it usually takes, and the job leave. Whole tens, at least 60; 120 where nothing is known.
int lead_seconds(const contract::Pace& pace);

// The same for a time limit: a lead that takes most of the job's time is no use, so it is at most
// half of it.
int lead_seconds(const contract::Pace& pace, double limit_seconds);

// How fast the newest earlier run of that name was: RUNS/NAME-*, by the time of its events. Empty
// where there is none that tells how long a checkpoint takes.
contract::Pace find_earlier_pace(const std::filesystem::path& runs, std::string_view name);

}  // namespace lockstep::slurm
