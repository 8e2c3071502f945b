// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// -s ddp, distributed data parallel: every worker holds the whole model and processes its part of
// the batch. Gradients are averaged in buckets during backward by the reducer of libtorch.
std::unique_ptr<Strategy> make_ddp(Communicator& communicator, const StrategyOptions& options);

}  // namespace lockstep::strategy
