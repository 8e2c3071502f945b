// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

namespace lockstep::optim {

// The sum of the squares of all elements in float64, in which the square of a float is exact: how a
// gradient is cut up among calls and workers changes the last digits of a double and nothing else.
double sum_of_squares(const torch::Tensor& values);

// The same as a number where the values are: a GPU is not waited for.
torch::Tensor sum_of_squares_tensor(const torch::Tensor& values);

}  // namespace lockstep::optim
