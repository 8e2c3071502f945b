// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "os/environment.h"
#include "plan/plan.h"

namespace lockstep::agent {

// Runs the part of `plan` that falls to `node`: the run directory, the workers, their supervision,
// the report of a failure. Returns the exit code of the run; throws an Error when the workers
// cannot be started.
int run(const plan::LaunchPlan& plan, int node, const os::Environment& environment);

}  // namespace lockstep::agent
