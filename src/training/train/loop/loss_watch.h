// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <torch/types.h>
#include <vector>

namespace lockstep::train {

// A loss that is not a finite number.
struct BadLoss {
  int64_t step = 0;
  double value = 0;
};

// Collects the losses since the last status exchange, so that the first bad one can be reported
// with its step. Losses on a GPU are not read here, because that would wait for the GPU.
class LossWatch {
 public:
  void add(const torch::Tensor& loss, int64_t step);

  // The losses that may be bad, on their device, and their steps. Undefined if there are none.
  torch::Tensor losses() const { return losses_.empty() ? torch::Tensor() : torch::stack(losses_); }
  const std::vector<int64_t>& steps() const { return steps_; }

  void reset();

 private:
  std::vector<torch::Tensor> losses_;
  std::vector<int64_t> steps_;
};

// Whether all elements are finite. Waits for the GPU.
bool are_finite(const std::vector<torch::Tensor>& weights);

}  // namespace lockstep::train
