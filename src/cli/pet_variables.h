// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "os/environment.h"
#include "plan/request.h"

namespace lockstep::cli {

// torchrun's PET_NNODES and the like: each stands for the flag of its name where that was not
// given. An empty one counts as absent. Throws an Error (64) for a switch that is no number.
void read_pet_variables(plan::Request& request, const os::Environment& environment);

}  // namespace lockstep::cli
