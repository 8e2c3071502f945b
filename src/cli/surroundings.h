// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/request.h"

namespace lockstep::cli {

// Looks around on this machine: cores, GPUs, a free port, the terminal, the clock.
plan::Surroundings read_surroundings();

}  // namespace lockstep::cli
