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

  std::optional<BadLoss> find_first_bad() const;

  void reset();

 private:
  std::vector<torch::Tensor> losses_;
  std::vector<int64_t> steps_;
};

// Whether all of them are finite numbers.
bool are_finite(const std::vector<torch::Tensor>& weights);

}  // namespace lockstep::train
