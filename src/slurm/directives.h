// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "slurm/job.h"

namespace lockstep::slurm {

// What the job asks of sbatch, sorted by name: its sizes and names, then what `sbatch:` adds or
// replaces. Throws an Error (64) for what is no option.
Pairs make_directives(const JobSettings& settings, const Job& job);

// Throws an Error (64) with the `source` for a value that would end the line of its directive, or
// its quotes, and begin something else.
void require_plain(std::string_view key, std::string_view value, std::string_view source);

// A path with -%j before its last dot unless it tells the job apart already.
std::string with_job_id(const std::string& path, bool is_array);

}  // namespace lockstep::slurm
