// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>
#include <vector>

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Dropped, not zeroed: the next backward then need not add to them, a parameter that takes no part
// is left alone by the optimizer, and libtorch 1.13's zero_grad() cannot detach a view of a bucket.
void drop_gradients(const std::vector<torch::Tensor>& parameters);

// Takes out the loss scale, clips if asked, lets the optimizer step unless a gradient is not finite
// and that was to be looked at, and drops the gradients.
StepResult apply_step(torch::optim::Optimizer& optimizer,
                      const std::vector<torch::Tensor>& parameters,
                      const StepOptions& options);

}  // namespace lockstep::strategy
