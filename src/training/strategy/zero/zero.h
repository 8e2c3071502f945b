// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// -s deepspeed: partitions parameters, gradients and optimizer state over all workers as ZeRO does,
// as configured in options.zero.
std::unique_ptr<Strategy> make_zero(Communicator& communicator, const StrategyOptions& options);

}  // namespace lockstep::strategy
