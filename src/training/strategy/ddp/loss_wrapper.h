// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/types.h>
#include <vector>

namespace lockstep::strategy {

// Returns the same loss with a modified backward:
// - `after_backward`, if set, is called after the whole backward;
// - backward also reaches every tensor of `reached`, without a gradient. Hooks that wait for the
//   gradients of these tensors are then called too.
torch::Tensor wrap_loss(const torch::Tensor& loss,
                        const std::vector<torch::Tensor>& reached,
                        std::function<void()> after_backward);

}  // namespace lockstep::strategy
