// SPDX-License-Identifier: Apache-2.0
#include "training/optim/adagrad.h"

#include "training/optim/state_key.h"

namespace lockstep::optim {

void begin_adagrad(torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<torch::optim::Adagrad*>(&optimizer) == nullptr) {
    return;
  }
  // The keys of old entries are parameters that may no longer exist.
  optimizer.state().clear();
  for (const auto& group : optimizer.param_groups()) {
    const auto& options = dynamic_cast<const torch::optim::AdagradOptions&>(group.options());
    for (const torch::Tensor& parameter : group.params()) {
      auto state = std::make_unique<torch::optim::AdagradParamState>();
      state->step(0);
      state->sum(torch::full_like(parameter.detach(), options.initial_accumulator_value()));
      optimizer.state()[state_key(parameter)] = std::move(state);
    }
  }
}

}  // namespace lockstep::optim
