// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// -s horovod, as in Horovod: gradients become ready in any order on each worker; a coordinator
// decides which are ready on all workers; small ones are fused into one buffer.
std::unique_ptr<Strategy> make_horovod(Communicator& communicator, const StrategyOptions& options);

}  // namespace lockstep::strategy
