// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "slurm/job_settings.h"

namespace lockstep::slurm {

// The jobs that `mode` asks for: one (single), one of each strategy (runall), or one of each
// strategy and node count (scaling-test). Throws an Error (64).
std::vector<JobSettings> expand_mode(const JobSettings& settings);

}  // namespace lockstep::slurm
