// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

namespace lockstep::optim {

// The sum of squares of all elements in float64, in which the square of a float is exact. How a
// gradient is divided among calls and workers changes only the last digits of a double.
double sum_of_squares(const torch::Tensor& values);

// As sum_of_squares(), but as a tensor on the device of the values: does not synchronize with a
// GPU.
torch::Tensor sum_of_squares_tensor(const torch::Tensor& values);

}  // namespace lockstep::optim
