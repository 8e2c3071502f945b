// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "slurm/check_demand.h"
#include "slurm/job.h"

namespace lockstep::slurm {

// What a job asks of the cluster, each with its place in the job's file. What `sbatch:` says in
// place of a key is left to sbatch --test-only.
Demand demand_of(const Job& job, const JobSettings& settings);

// "16G" in MiB; a number alone is MiB. Nothing for what is no size.
std::optional<int64_t> find_mebibytes(std::string_view text);

}  // namespace lockstep::slurm
