// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/types.h>
#include <vector>

#include "lockstep/communicator.h"
#include "training/train/verify/table.h"
#include "training/train/verify/trial_state.h"

namespace lockstep::train {

// Which values of each tensor can be compared.
struct Comparable {
  std::vector<torch::Tensor> values;  // a flat mask per tensor; undefined: all values
  std::vector<std::string> left_out;  // "bias (3 of 10 values)"
};

// Selects the values that can be compared. `gradients` contains the largest absolute gradient of
// each value in a float64 training, or undefined for tensors without gradient. A gradient that
// consists of rounding errors must be excluded: an optimizer that normalizes gradients (Adam) turns
// it into steps of full size in a random direction, which depends on the order of summation even in
// one process.
Comparable find_comparable(const std::vector<Moved>& moved,
                           const std::vector<torch::Tensor>& gradients);

// Returns the largest difference between the tensors and `wanted`, relative to the largest value of
// the same tensor.
TrialResult compare(const std::vector<Moved>& moved,
                    const std::vector<torch::Tensor>& wanted,
                    const std::vector<torch::Tensor>& comparable);

// Returns the first parameter that is not bit-identical on all workers; empty if there is none. All
// workers of `group` must call it.
std::string find_difference(const std::vector<Moved>& moved, Communicator& group);

}  // namespace lockstep::train
