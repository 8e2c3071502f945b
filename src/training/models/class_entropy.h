// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

namespace lockstep::models {

// Computes the mean cross entropy of scores [N, classes] with operators of libtorch. Uses at least
// float32, because 16-bit types are not precise enough for log-sum-exp.
torch::Tensor class_entropy(const torch::Tensor& scores,
                            const torch::Tensor& targets,
                            double smoothing);

}  // namespace lockstep::models
