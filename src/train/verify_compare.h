// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/torch.h>
#include <vector>

#include "lockstep/communicator.h"
#include "train/trial_state.h"
#include "train/verify_table.h"

namespace lockstep::train {

// Which values of each tensor can be compared.
struct Comparable {
  std::vector<torch::Tensor> values;  // one flat mask per tensor; undefined: all of it
  std::vector<std::string> left_out;  // "bias (3 of 10 values)"
};

// `gradients`: the largest that each value had in a training in float64; undefined: it had none.
// An optimizer that divides by the size of the gradient (Adam) makes steps of full size out of
// rounding: such a parameter goes anywhere, under one process too when it adds in another order.
Comparable find_comparable(const std::vector<Moved>& moved,
                           const std::vector<torch::Tensor>& gradients);

// How far the tensors are from what was `wanted`: the largest difference of two values, as a share
// of the largest value of their tensor.
TrialResult compare(const std::vector<Moved>& moved,
                    const std::vector<torch::Tensor>& wanted,
                    const std::vector<torch::Tensor>& comparable);

// The first parameter that some worker holds with other bits than rank 0; empty: none.
std::string find_difference(const std::vector<Moved>& moved, Communicator& gang);

}  // namespace lockstep::train
