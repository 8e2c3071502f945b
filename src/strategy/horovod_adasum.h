// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

namespace lockstep::strategy::horovod {

// a(1 - <a,b>/2|a|^2) + b(1 - <a,b>/2|b|^2): parallel vectors are averaged, orthogonal ones added.
// A vector of zeros gives the other. Products are taken in float64; flat tensors of one type.
torch::Tensor adasum(const torch::Tensor& a, const torch::Tensor& b);

// The rows of `rows`, of which there are a power of two, reduced as a binary tree: neighbours
// first, then pairs of pairs.
torch::Tensor adasum_tree(const torch::Tensor& rows);

}  // namespace lockstep::strategy::horovod
