// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/loss_watch.h"

#include <cmath>
#include <torch/utils.h>

namespace lockstep::train {

// A reference to the tensor is kept, not a copy: CUDA graphs overwrite their output, which is why
// StepRunner clones it before.
void LossWatch::add(const torch::Tensor& loss, int64_t step) {
  // On the CPU the check is free, and finite losses do not need to be stored.
  if (loss.is_cpu() && std::isfinite(loss.item<double>())) {
    return;
  }
  losses_.push_back(loss.detach());
  steps_.push_back(step);
}

void LossWatch::reset() {
  losses_.clear();
  steps_.clear();
}

// If an element is not finite, the sum is not finite either. The reverse is not true, because the
// sum itself can overflow; the elements are checked only in this case.
bool are_finite(const std::vector<torch::Tensor>& weights) {
  torch::NoGradGuard no_grad;
  torch::Tensor sum = torch::zeros({}, torch::kFloat64);
  for (const torch::Tensor& weight : weights) {
    sum = sum.to(weight.device()) + weight.sum().to(torch::kFloat64);
  }
  if (std::isfinite(sum.item<double>())) {
    return true;
  }
  for (const torch::Tensor& weight : weights) {
    if (!weight.isfinite().all().item<bool>()) {
      return false;
    }
  }
  return true;
}

}  // namespace lockstep::train
