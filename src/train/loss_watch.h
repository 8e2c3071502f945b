// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <torch/torch.h>
#include <vector>

namespace lockstep::train {

// A loss that is not a finite number.
struct BadLoss {
  int64_t step = 0;
  double value = 0;
};

// Remembers the losses since the last talk, so that the first bad one can be named. On a GPU
// nothing is looked at before it is asked for.
class LossWatch {
 public:
  void add(const torch::Tensor& loss, int64_t step);

  // Those that may be bad, where they are, and their steps; undefined: there are none.
  torch::Tensor losses() const { return losses_.empty() ? torch::Tensor() : torch::stack(losses_); }
  const std::vector<int64_t>& steps() const { return steps_; }

  void reset();

 private:
  std::vector<torch::Tensor> losses_;
  std::vector<int64_t> steps_;
};

// Whether all of them are finite numbers.
bool are_finite(const std::vector<torch::Tensor>& weights);

}  // namespace lockstep::train
