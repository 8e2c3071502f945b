// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/request.h"

namespace lockstep::cli {

// Looks around on this machine: cores, GPUs, the terminal, the clock, and what Slurm or another
// launcher says.
plan::Surroundings read_surroundings();

}  // namespace lockstep::cli
