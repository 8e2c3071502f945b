// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/ddp/gate.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <utility>

namespace lockstep::strategy {
namespace {

struct Call : torch::CustomClassHolder {
  explicit Call(std::function<void()> what) : function(std::move(what)) {}
  std::function<void()> function;
};

class Gate : public torch::autograd::Function<Gate> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& loss,
                               const at::TensorList& touched,
                               const c10::intrusive_ptr<Call>& call) {
    context->saved_data["touched"] = static_cast<int64_t>(touched.size());
    if (call->function) {
      context->saved_data["call"] = c10::IValue::make_capsule(call);
    }
    return loss.view_as(loss);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto found = context->saved_data.find("call");
    if (found != context->saved_data.end()) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [call = found->second.toCapsule()] { static_cast<const Call&>(*call).function(); });
    }
    // One result for each argument of forward(): only the loss gets a gradient.
    torch::autograd::variable_list result(
        static_cast<size_t>(context->saved_data["touched"].toInt()) + 2);
    result.front() = gradients.front();
    return result;
  }
};

}  // namespace

torch::Tensor gate(const torch::Tensor& loss,
                   const std::vector<torch::Tensor>& touched,
                   std::function<void()> after_backward) {
  // apply() recognizes tensors only in a TensorList.
  return Gate::apply(
      loss, at::TensorList(touched), c10::make_intrusive<Call>(std::move(after_backward)));
}

}  // namespace lockstep::strategy
