// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "os/environment.h"
#include "plan/plan.h"

namespace lockstep::agent {

// Runs `plan` in the way that it says: on this machine, as the leader of agents that are started
// through srun or ssh, as one of several peers, or by becoming a worker, in which case it does not
// return. Returns the exit code of the run; throws an Error when it cannot begin.
int run(const plan::LaunchPlan& plan, const os::Environment& environment);

// An agent that srun or ssh has started: joins the leader of which the environment, or standard
// input, tells, and does what it says; `answer` knows what may be asked of this node. Returns the
// exit code of this process.
int serve(os::Environment environment,
          bool from_stdin,
          std::function<std::string(const std::string&)> answer = {});

}  // namespace lockstep::agent
