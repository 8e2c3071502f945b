// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "launcher/slurm/reasons.h"
#include "lockstep/error.h"

// Explanations of the errors of sbatch.
namespace lockstep::slurm {

// Explains the error output of sbatch.
Explanation explain_refusal(std::string_view errors);

// Makes an Error (64) with the explanation and the original lines.
Error refusal(std::string_view errors);

// Last line of the error output of a Slurm command, without prefixes such as "sbatch: error: ".
std::string last_output_line(std::string_view errors);

}  // namespace lockstep::slurm
