// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <torch/types.h>
#include <vector>

#include "lockstep/strategy.h"
#include "training/comm/compat.h"
#include "training/strategy/shared/exchange.h"

namespace lockstep::strategy {

// Communication hook of the reducer, called for each full bucket. Averages the bucket over all
// workers, compressed as `options` request. `exchange` and `step` must outlive the hook; `step` is
// the number of exchanges so far.
std::unique_ptr<c10d::CommHookInterface> make_comm_hook(
    Exchange& exchange,
    const StrategyOptions& options,
    const int64_t& step,
    const std::vector<torch::Tensor>& parameters);

}  // namespace lockstep::strategy
