// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/gradient_hooks.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::strategy {
namespace {

// Not every libtorch can remove a hook. It becomes inactive when its owner is destroyed.
using CallbackPtr = std::shared_ptr<GradientHooks::Callback>;

class ReadyHook final : public torch::autograd::FunctionPostHook {
 public:
  ReadyHook(std::weak_ptr<GradientHooks::Callback> callback, size_t parameter)
      : callback_(std::move(callback)), parameter_(parameter) {}

  // A post hook of the accumulator runs after the gradient was added to grad(). A hook of the
  // tensor would run before this addition.
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    if (const CallbackPtr callback = callback_.lock()) {
      (*callback)(parameter_);
    }
    return outputs;
  }

 private:
  std::weak_ptr<GradientHooks::Callback> callback_;
  size_t parameter_;
};

}  // namespace

struct GradientHooks::Parts {
  // Keeps the accumulators alive: a parameter holds its accumulator only weakly.
  std::vector<decltype(torch::autograd::impl::grad_accumulator(torch::Tensor()))> accumulators;
  CallbackPtr callback;
};

GradientHooks::GradientHooks(const std::vector<torch::Tensor>& parameters, Callback callback)
    : parts_(std::make_unique<Parts>()) {
  parts_->callback = std::make_shared<Callback>(std::move(callback));
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters[i]);
    accumulator->add_post_hook(std::make_unique<ReadyHook>(parts_->callback, i));
    parts_->accumulators.push_back(std::move(accumulator));
  }
}

GradientHooks::~GradientHooks() = default;

}  // namespace lockstep::strategy
