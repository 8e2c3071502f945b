// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/optim.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Drops the gradients instead of zeroing them. The next backward then need not add to them, the
// optimizer skips parameters without a gradient, and zero_grad() of libtorch 1.13 cannot detach a
// view of a bucket.
void drop_gradients(const std::vector<torch::Tensor>& parameters);

// Removes the loss scale, clips the gradients if requested, makes the optimizer step and drops the
// gradients. With check_finite, the step is skipped if a gradient is not finite.
StepResult apply_step(torch::optim::Optimizer& optimizer,
                      const std::vector<torch::Tensor>& parameters,
                      const StepOptions& options);

}  // namespace lockstep::strategy
