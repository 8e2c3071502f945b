// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/error.h"
#include "slurm/reasons.h"

// Why sbatch took no job, in a researcher's words.
namespace lockstep::slurm {

// Why sbatch took no job: what it wrote to stderr.
Explanation explain_refusal(std::string_view errors);

// The same as an Error (64) with Slurm's own words.
Error refusal(std::string_view errors);

// The words of a client's stderr that say what happened: one line, without "sbatch: error: ".
std::string last_words(std::string_view errors);

}  // namespace lockstep::slurm
