// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/ddp/loss_wrapper.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <utility>

namespace lockstep::strategy {
namespace {

struct Call : torch::CustomClassHolder {
  explicit Call(std::function<void()> what) : function(std::move(what)) {}
  std::function<void()> function;
};

class LossWrapper : public torch::autograd::Function<LossWrapper> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& loss,
                               const at::TensorList& reached,
                               const c10::intrusive_ptr<Call>& call) {
    context->saved_data["reached"] = static_cast<int64_t>(reached.size());
    if (call->function) {
      context->saved_data["call"] = c10::IValue::make_capsule(call);
    }
    return loss.view_as(loss);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    // queue_callback() defers the call to the end of the whole backward. backward() of the loss
    // itself runs first, before any gradient exists.
    const auto found = context->saved_data.find("call");
    if (found != context->saved_data.end()) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [call = found->second.toCapsule()] { static_cast<const Call&>(*call).function(); });
    }
    // One result for each argument of forward(): only the loss gets a gradient.
    torch::autograd::variable_list result(
        static_cast<size_t>(context->saved_data["reached"].toInt()) + 2);
    result.front() = gradients.front();
    return result;
  }
};

}  // namespace

torch::Tensor wrap_loss(const torch::Tensor& loss,
                        const std::vector<torch::Tensor>& reached,
                        std::function<void()> after_backward) {
  // apply() recognizes tensors only in a TensorList.
  return LossWrapper::apply(
      loss, at::TensorList(reached), c10::make_intrusive<Call>(std::move(after_backward)));
}

}  // namespace lockstep::strategy
