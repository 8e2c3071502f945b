// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// -s deepspeed: parameters, gradients and optimizer state cut up over the gang as ZeRO does, by
// options.zero.
std::unique_ptr<Strategy> make_zero(Communicator& communicator, const StrategyOptions& options);

}  // namespace lockstep::strategy
