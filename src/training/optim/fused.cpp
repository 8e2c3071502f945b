// SPDX-License-Identifier: Apache-2.0
#include "training/optim/fused.h"

#include <cmath>

#include "training/kernels/optimizer.h"
#include "training/optim/fused_template.h"
#include "training/optim/state_key.h"

namespace lockstep::optim {
namespace {

// The parts of a step that differ between Adam and AdamW on one side and SGD on the other (Kind of
// fused_template.h).
template <typename OptionsType, typename StateType, bool kDecayInGradient>
struct AdamKind {
  using Options = OptionsType;
  using State = StateType;

  static bool is_possible(const Tensor& /*parameter*/,
                          const Options& options,
                          const Options& /*first*/) {
    return !options.amsgrad();
  }

  // Counts a step of this parameter. The result distinguishes parameters of one group with
  // different numbers of steps, which need different bias corrections.
  static int64_t count(StateMap& states, const Tensor& parameter, const Options& /*options*/) {
    auto& slot = states[state_key(parameter)];
    if (slot == nullptr) {
      auto fresh = std::make_unique<State>();
      fresh->step(0);
      fresh->exp_avg(torch::zeros_like(parameter));
      fresh->exp_avg_sq(torch::zeros_like(parameter));
      slot = std::move(fresh);
    }
    auto& state = static_cast<State&>(*slot);
    state.step(state.step() + 1);
    return state.step();
  }

  static Rates rates(const Options& options, int64_t age) {
    const auto [beta1, beta2] = options.betas();
    const auto step = static_cast<double>(age);
    return {.lr = static_cast<float>(options.lr()),
            .beta1 = static_cast<float>(beta1),
            .beta2 = static_cast<float>(beta2),
            .epsilon = static_cast<float>(options.eps()),
            .weight_decay = static_cast<float>(options.weight_decay()),
            .correction1 = static_cast<float>(1 - std::pow(beta1, step)),
            .correction2 = static_cast<float>(1 - std::pow(beta2, step))};
  }

  static void fill(StateMap& states, const Tensor& parameter, UpdatedTensor& entry) {
    auto& state = static_cast<State&>(*states.at(state_key(parameter)));
    entry.first = state.exp_avg().template data_ptr<float>();
    entry.second = state.exp_avg_sq().template data_ptr<float>();
  }

  static void launch(const UpdatedTensor* table,
                     int count,
                     int64_t elements,
                     const Rates* rates,
                     const kernels::Clip& clip,
                     const Options& /*options*/,
                     kernels::Stream stream) {
    kernels::adamw_step(table, count, elements, rates, clip, kDecayInGradient, stream);
  }
};

// libtorch creates the momentum of SGD from the first gradient. Here the buffer is allocated
// before, and the kernel gets a flag for the first step. Without momentum there is no state.
struct SgdKind {
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  enum Age : int64_t { kFirst, kLater };

  // The kernel has one flag for all groups.
  static bool is_possible(const Tensor& /*parameter*/,
                          const Options& options,
                          const Options& first) {
    return options.nesterov() == first.nesterov();
  }

  static int64_t count(StateMap& states, const Tensor& parameter, const Options& options) {
    if (options.momentum() == 0) {
      return kLater;
    }
    auto& slot = states[state_key(parameter)];
    if (slot != nullptr && static_cast<State&>(*slot).momentum_buffer().defined()) {
      return kLater;
    }
    auto fresh = std::make_unique<State>();
    fresh->momentum_buffer(torch::zeros_like(parameter));
    slot = std::move(fresh);
    return kFirst;
  }

  // The fields of Adam serve SGD as well: beta1 is the momentum, beta2 the dampening, and
  // correction1 is 0 in the first step, in which libtorch does not dampen the gradient.
  static Rates rates(const Options& options, int64_t age) {
    return {.lr = static_cast<float>(options.lr()),
            .beta1 = static_cast<float>(options.momentum()),
            .beta2 = static_cast<float>(options.dampening()),
            .weight_decay = static_cast<float>(options.weight_decay()),
            .correction1 = age == kFirst ? 0.0F : 1.0F};
  }

  static void fill(StateMap& states, const Tensor& parameter, UpdatedTensor& entry) {
    const auto found = states.find(state_key(parameter));
    if (found != states.end()) {
      entry.first = static_cast<State&>(*found->second).momentum_buffer().data_ptr<float>();
    }
  }

  static void launch(const UpdatedTensor* table,
                     int count,
                     int64_t elements,
                     const Rates* rates,
                     const kernels::Clip& clip,
                     const Options& options,
                     kernels::Stream stream) {
    kernels::sgd_step(table, count, elements, rates, clip, options.nesterov(), stream);
  }
};

// One kernel updates all parameters.
template <typename Base, typename Kind>
class OneKernel final : public Fused<Base, Kind> {
 public:
  using Fused<Base, Kind>::Fused;

 private:
  void launch_update(const typename Fused<Base, Kind>::Launch& launch,
                     const std::vector<UpdatedTensor>& /*entries*/,
                     const kernels::Clip& clip) override {
    Kind::launch(this->tensors_of(launch.table),
                 launch.count,
                 launch.elements,
                 this->rates(),
                 clip,
                 static_cast<const typename Kind::Options&>(this->param_groups_.front().options()),
                 this->stream_of(launch.table));
  }
};

using FusedAdam = OneKernel<
    torch::optim::Adam,
    AdamKind<torch::optim::AdamOptions, torch::optim::AdamParamState, /*kDecayInGradient=*/true>>;
using FusedAdamW = OneKernel<torch::optim::AdamW,
                             AdamKind<torch::optim::AdamWOptions,
                                      torch::optim::AdamWParamState,
                                      /*kDecayInGradient=*/false>>;
using FusedSgd = OneKernel<torch::optim::SGD, SgdKind>;

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

template <typename Made, typename Options>
std::unique_ptr<torch::optim::Optimizer> make_adam(const Groups& groups,
                                                   const OptimizerOptions& options) {
  return std::make_unique<Made>(groups,
                                Options(options.lr)
                                    .betas(std::make_tuple(options.beta1, options.beta2))
                                    .eps(options.epsilon)
                                    .weight_decay(options.weight_decay));
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_fused(const Groups& groups,
                                                    const OptimizerOptions& options) {
  if (options.name == "adam") {
    return make_adam<FusedAdam, torch::optim::AdamOptions>(groups, options);
  }
  if (options.name == "adamw") {
    return make_adam<FusedAdamW, torch::optim::AdamWOptions>(groups, options);
  }
  if (options.name == "sgd") {
    return std::make_unique<FusedSgd>(groups,
                                      torch::optim::SGDOptions(options.lr)
                                          .momentum(options.momentum)
                                          .dampening(options.dampening)
                                          .nesterov(options.nesterov)
                                          .weight_decay(options.weight_decay));
  }
  return nullptr;
}

}  // namespace lockstep::optim
