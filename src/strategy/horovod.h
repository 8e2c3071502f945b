// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Horovod's model: gradients become ready in any order on each worker; a coordinator agrees on what
// all have ready; small ones are fused into one buffer.
std::unique_ptr<Strategy> make_horovod(Communicator& communicator, const StrategyOptions& options);

}  // namespace lockstep::strategy
