// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/slurm/job.h"

namespace lockstep::slurm {

// Makes the directives of the job, sorted by name. The items of `sbatch:` add directives or
// override those of the keys. Throws an Error (64) for an item that is not an option.
Pairs make_directives(const JobSettings& settings, const Job& job);

// Throws an Error (64) with `source` if the value contains a character that would end the directive
// or its quotes.
void require_plain(std::string_view key, std::string_view value, std::string_view source);

// Inserts -%j (or -%A_%a) before the extension, unless the path already contains the job id.
std::string with_job_id(const std::string& path, bool is_array);

}  // namespace lockstep::slurm
