// SPDX-License-Identifier: Apache-2.0
#include "strategy/apply_step.h"

#include "lockstep/optimizer.h"

namespace lockstep::strategy {

double apply_step(torch::optim::Optimizer& optimizer,
                  const std::vector<torch::Tensor>& parameters,
                  const StepOptions& options) {
  double norm = 0;
  if (options.clip_norm > 0) {
    norm = clip_gradients(parameters, options.clip_norm);
  }
  optimizer.step();
  for (const torch::Tensor& parameter : parameters) {
    parameter.mutable_grad() = torch::Tensor();
  }
  return norm;
}

}  // namespace lockstep::strategy
