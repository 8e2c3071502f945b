// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/request.h"

namespace lockstep::cli {

// Detects the environment of this process: cores, GPUs, terminal, clock, and the variables of Slurm
// or another launcher.
plan::HostEnvironment read_host_environment();

}  // namespace lockstep::cli
