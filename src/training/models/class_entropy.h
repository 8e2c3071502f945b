// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

namespace lockstep::models {

// The mean cross entropy of scores [N, classes] by libtorch's operators, in float32 at least:
// sixteen bits are too few to take a logarithm of a sum in.
torch::Tensor class_entropy(const torch::Tensor& scores,
                            const torch::Tensor& targets,
                            double smoothing);

}  // namespace lockstep::models
