// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "launcher/slurm/check_demand.h"
#include "launcher/slurm/job.h"

namespace lockstep::slurm {

// Resources that a job requests, each with its source in the job file. Values that `sbatch:`
// overrides are left to sbatch --test-only.
Demand demand_of(const Job& job, const JobSettings& settings);

// Converts "16G" to MiB; a number without a unit is in MiB. Empty if the text is not a size.
std::optional<int64_t> find_mebibytes(std::string_view text);

}  // namespace lockstep::slurm
