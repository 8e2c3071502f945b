// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <torch/torch.h>
#include <vector>

#include "comm/compat.h"
#include "lockstep/strategy.h"
#include "strategy/exchange.h"

namespace lockstep::strategy {

// What libtorch's reducer calls with each bucket that is full: averages it over the gang, made
// smaller on its way as `options` ask. `exchange` and `step`, the number of exchanges before this
// one, must outlive it.
std::unique_ptr<c10d::CommHookInterface> make_ddp_hook(
    Exchange& exchange,
    const StrategyOptions& options,
    const int64_t& step,
    const std::vector<torch::Tensor>& parameters);

}  // namespace lockstep::strategy
