// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lamb.h"

#include <cmath>

#include "optim/state_key.h"

namespace lockstep {
namespace {

LambParamState& state_of(const torch::Tensor& parameter, optim::StateMap& states) {
  auto& slot = states[optim::state_key(parameter)];
  if (slot == nullptr) {
    auto fresh = std::make_unique<LambParamState>();
    fresh->exp_avg(torch::zeros_like(parameter));
    fresh->exp_avg_sq(torch::zeros_like(parameter));
    slot = std::move(fresh);
  }
  return dynamic_cast<LambParamState&>(*slot);
}

void update(torch::Tensor parameter, LambParamState& state, const LambOptions& options) {
  const auto [beta1, beta2] = options.betas();
  const torch::Tensor& gradient = parameter.grad();
  state.step(state.step() + 1);
  state.exp_avg().mul_(beta1).add_(gradient, 1 - beta1);
  state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const torch::Tensor root = options.eps_inside_sqrt()
                                 ? (state.exp_avg_sq() + options.eps()).sqrt_()
                                 : state.exp_avg_sq().sqrt().add_(options.eps());
  const torch::Tensor change = (state.exp_avg() / root).add_(parameter, options.weight_decay());
  const torch::Tensor length = parameter.norm();
  const torch::Tensor change_length = change.norm();
  // On the device: a GPU need not be waited for.
  const torch::Tensor ratio =
      torch::where((length != 0).logical_and(change_length != 0),
                   (length / change_length).clamp(options.min_coeff(), options.max_coeff()),
                   torch::ones_like(length));
  const auto steps = static_cast<double>(state.step());
  const double correction = options.bias_correction() ? std::sqrt(1 - std::pow(beta2, steps)) /
                                                            (1 - std::pow(beta1, steps))
                                                      : 1;
  parameter.sub_(change.mul_(ratio), options.lr() * correction);
}

}  // namespace

torch::Tensor Lamb::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode grad(true);
    loss = closure();
  }
  for (auto& group : param_groups_) {
    const auto& options = dynamic_cast<const LambOptions&>(group.options());
    for (const torch::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) {
        update(parameter, state_of(parameter, state_), options);
      }
    }
  }
  return loss;
}

}  // namespace lockstep
