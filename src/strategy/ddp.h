// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Distributed data parallel: every worker holds the whole model and computes on its part of the
// batch; gradients are averaged in buckets, while backward still runs, by libtorch's own reducer.
std::unique_ptr<Strategy> make_ddp(Communicator& communicator, const StrategyOptions& options);

}  // namespace lockstep::strategy
