// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/torch.h>
#include <vector>

namespace lockstep::strategy {

// The same loss, whose backward first lets `after_backward` be called when all of it is done, and
// reaches every tensor of `touched` too, with no gradient: what is told when a gradient is there is
// then told of these as well.
torch::Tensor gate(const torch::Tensor& loss,
                   const std::vector<torch::Tensor>& touched,
                   std::function<void()> after_backward);

}  // namespace lockstep::strategy
