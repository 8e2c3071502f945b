// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "slurm/job.h"

namespace lockstep::slurm {

// Refuses, with an Error (64), a training_cmd that would not be what the launcher in front of it
// starts: several commands, a launcher, a variable.
void check_program(const JobSettings& settings, const Job& job);

}  // namespace lockstep::slurm
