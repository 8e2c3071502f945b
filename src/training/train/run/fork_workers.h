// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/os/environment.h"

namespace lockstep::train {

// Makes this process the fork server of its node if the agent requests it (contract/fork_offer.h):
//
//   agent --exec--> fork server --fork--> worker 0, worker 1, ...
//         <-- "RANK PID" lines --  then exits; the workers become children of the agent
//
// The function returns in each worker, with the environment variables and output streams of that
// worker in place. It does not return in the fork server, and does nothing without a request. Call
// it before the first thread and before any call of libtorch: threads do not survive a fork.
void accept_fork_offer(const os::Environment& environment);

}  // namespace lockstep::train
