// SPDX-License-Identifier: Apache-2.0
#include "training/optim/vector_adam.h"

#include <algorithm>
#include <torch/utils.h>
#include <vector>

#include "training/optim/flat_adam.h"
#include "training/optim/state_key.h"

namespace lockstep::optim {
namespace {

bool is_plain(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == torch::kFloat32 &&
         tensor.is_non_overlapping_and_dense() && !tensor.is_sparse();
}

// Equal strides, so that one index addresses the same element in all four tensors.
bool is_ours(const torch::Tensor& parameter) {
  const torch::Tensor& gradient = parameter.grad();
  return is_plain(parameter) && is_plain(gradient) && parameter.strides() == gradient.strides();
}

// The state has the strides of its parameter: zeros_like() keeps them, and so does the restore from
// a checkpoint (empty_like() in optimizer_state.cpp).
template <typename State, typename Options>
void update(const torch::Tensor& parameter,
            StateMap& states,
            const Options& options,
            bool decouples) {
  auto& slot = states[state_key(parameter)];
  if (slot == nullptr) {
    auto fresh = std::make_unique<State>();
    fresh->exp_avg(torch::zeros_like(parameter));
    fresh->exp_avg_sq(torch::zeros_like(parameter));
    slot = std::move(fresh);
  }
  auto& state = dynamic_cast<State&>(*slot);
  state.step(state.step() + 1);
  flat_adam({.parameter = parameter.data_ptr<float>(),
             .gradient = parameter.grad().data_ptr<float>(),
             .exp_avg = state.exp_avg().template data_ptr<float>(),
             .exp_avg_sq = state.exp_avg_sq().template data_ptr<float>(),
             .count = parameter.numel()},
            state.step(),
            {.lr = options.lr(),
             .beta1 = std::get<0>(options.betas()),
             .beta2 = std::get<1>(options.betas()),
             .epsilon = options.eps(),
             .weight_decay = options.weight_decay(),
             .decoupled_decay = decouples});
}

// Returns whether the step was made here; otherwise libtorch must make it. All groups are checked
// before any is changed.
template <typename State, typename Options>
bool update_all(std::vector<torch::optim::OptimizerParamGroup>& groups,
                StateMap& states,
                bool decouples) {
  const torch::NoGradGuard no_grad;
  for (auto& group : groups) {
    const auto& options = dynamic_cast<const Options&>(group.options());
    const bool fits = std::all_of(
        group.params().begin(), group.params().end(), [](const torch::Tensor& parameter) {
          return !parameter.grad().defined() || is_ours(parameter);
        });
    if (options.amsgrad() || !fits) {
      return false;
    }
  }
  for (auto& group : groups) {
    const auto& options = dynamic_cast<const Options&>(group.options());
    for (const torch::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) {
        update<State>(parameter, states, options, decouples);
      }
    }
  }
  return true;
}

}  // namespace

torch::Tensor VectorAdam::step(LossClosure closure) {
  using State = torch::optim::AdamParamState;
  using Options = torch::optim::AdamOptions;
  if (closure != nullptr || !update_all<State, Options>(param_groups_, state_, false)) {
    return Adam::step(std::move(closure));
  }
  return {};
}

torch::Tensor VectorAdamW::step(LossClosure closure) {
  using State = torch::optim::AdamWParamState;
  using Options = torch::optim::AdamWOptions;
  if (closure != nullptr || !update_all<State, Options>(param_groups_, state_, true)) {
    return AdamW::step(std::move(closure));
  }
  return {};
}

}  // namespace lockstep::optim
