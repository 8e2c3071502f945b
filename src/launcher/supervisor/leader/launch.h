// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "common/os/environment.h"
#include "launcher/plan/plan.h"

namespace lockstep::supervisor {

// Runs `plan` in its launch mode: on this machine, as the leader of agents that srun or ssh starts,
// as one of several nodes that were started manually, or as a task, which replaces this process by
// a worker and does not return. Returns the exit code of the run. Throws an Error if the run cannot
// start.
int run(const plan::LaunchPlan& plan, const os::Environment& environment);

// The agent that srun or ssh starts. It reads the rendezvous from the environment or from standard
// input, joins the leader and executes its commands. `answer` answers the questions of lockstep
// doctor about this node. Returns the exit code of this process.
int run_agent(os::Environment environment,
              bool from_stdin,
              std::function<std::string(const std::string&)> answer = {});

}  // namespace lockstep::supervisor
