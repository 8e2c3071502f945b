// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "os/environment.h"
#include "plan/plan.h"

// What a plan asks of this machine, checked before the first worker starts.
namespace lockstep::agent {

// The file that each worker executes. Throws an Error (64) that says what is wrong with the program
// and what was perhaps meant.
std::string require_program(const plan::LaunchPlan& plan, const os::Environment& environment);

// Throws an Error (69) when somebody listens already where rank 0 will.
void require_port(const plan::LaunchPlan& plan);

}  // namespace lockstep::agent
