// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "os/environment.h"

namespace lockstep::train {

// Takes the agent's offer to fork the workers of this node from this process, if there is one
// (contract/fork_offer.h). In each worker it returns, with the worker's variables and output in
// place; the process that was started leaves. Call before the first thread and before any call of
// libtorch.
void accept_fork_offer(const os::Environment& environment);

}  // namespace lockstep::train
