// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/slurm/job.h"

namespace lockstep::slurm {

// Throws an Error (64) if training_cmd is not a single program that a launcher can start: several
// commands, another launcher, or a variable assignment.
void check_program(const JobSettings& settings, const Job& job);

}  // namespace lockstep::slurm
