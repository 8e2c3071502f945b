// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

namespace lockstep::strategy::horovod {

// Adasum (Maleki et al. 2020): a(1 - <a,b>/2|a|^2) + b(1 - <a,b>/2|b|^2). Parallel vectors are
// averaged, orthogonal ones added. If one vector is zero, the result is the other. Products are
// computed in float64. Both tensors are flat and of one type.
torch::Tensor adasum(const torch::Tensor& a, const torch::Tensor& b);

// Reduces the rows of `rows`, whose number is a power of two, as a binary tree: neighbours first,
// then pairs of pairs.
torch::Tensor adasum_tree(const torch::Tensor& rows);

}  // namespace lockstep::strategy::horovod
