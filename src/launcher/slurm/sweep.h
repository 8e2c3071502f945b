// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/slurm/job_settings.h"

namespace lockstep::slurm {

// Expands `mode` into jobs: one (single), one per strategy (runall), or one per strategy and node
// count (scaling-test). Throws an Error (64) for an invalid mode or node count.
std::vector<JobSettings> expand_mode(const JobSettings& settings);

}  // namespace lockstep::slurm
