// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/os/environment.h"
#include "launcher/plan/request.h"

namespace lockstep::cli {

// Reads the PET_ variables of torchrun, such as PET_NNODES: each sets the option of its name unless
// that option was given. An empty variable counts as unset. Throws an Error (64) for a flag that is
// not a number.
void read_pet_variables(plan::Request& request, const os::Environment& environment);

}  // namespace lockstep::cli
