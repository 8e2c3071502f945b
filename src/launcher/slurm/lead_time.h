// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "common/contract/pace.h"

namespace lockstep::slurm {

// Time between the warning signal and the time limit: SECONDS in `#SBATCH --signal=B:USR1@SECONDS`.
// Slurm checks time limits every 30 s, so the signal can arrive 30 s late. After it, a step must
// end, a checkpoint must be written (three times its usual duration, as a safety margin), and all
// processes must exit. A multiple of 10, at least 60; 120 without data from a previous run.
int lead_seconds(const contract::Pace& pace);

// As above, but at most half of the time limit.
int lead_seconds(const contract::Pace& pace, double limit_seconds);

// Step and checkpoint times of the newest run RUNS/NAME-* that has recorded a checkpoint. Runs are
// ordered by the modification time of their events. Empty if there is none.
contract::Pace find_earlier_pace(const std::filesystem::path& runs, std::string_view name);

}  // namespace lockstep::slurm
