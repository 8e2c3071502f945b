// SPDX-License-Identifier: Apache-2.0
//
// What follows the last block of a ResNet, by kernels of our own; the classifier between them is
// cuBLAS's.
#include <torch/autograd.h>

#include "training/kernels/class_head.h"
#include "training/models/conv_calls.h"

namespace lockstep::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class MeanFunction : public torch::autograd::Function<MeanFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& given) {
    const Tensor features = given.to(torch::kBFloat16).contiguous(kPixelByPixel);
    Tensor output = new_bf16(features, {features.size(0), features.size(1)});
    kernels::pixel_mean({.output = bf16(output),
                         .input = bf16(features),
                         .images = features.size(0),
                         .pixels = features.size(2) * features.size(3),
                         .channels = features.size(1)},
                        stream());
    context->saved_data["sizes"] = features.sizes().vec();
    context->saved_data["type"] = given.scalar_type();
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor gradient = gradients[0].to(torch::kBFloat16).contiguous();
    const std::vector<int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const Tensor result = new_features(gradient, sizes[1], sizes[2], sizes[3]);
    kernels::pixel_mean_backward({.output = bf16(result),
                                  .gradient = bf16(gradient),
                                  .images = sizes[0],
                                  .pixels = sizes[2] * sizes[3],
                                  .channels = sizes[1]},
                                 stream());
    return {result.to(context->saved_data["type"].toScalarType())};
  }
};

class EntropyFunction : public torch::autograd::Function<EntropyFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const Tensor& given,
                        const Tensor& given_targets,
                        double smoothing) {
    const Tensor scores = given.contiguous();
    const Tensor targets = given_targets.contiguous();
    Tensor loss = new_f32(scores, {});
    const Tensor share = new_f32(scores, {});
    const Tensor losses = new_f32(scores, {scores.size(0)});
    const Tensor log_sum_exp = new_f32(scores, {scores.size(0)});
    kernels::class_entropy({.loss = f32(loss),
                            .share = f32(share),
                            .losses = f32(losses),
                            .log_sum_exp = f32(log_sum_exp),
                            .scores = bf16(scores),
                            .targets = targets.data_ptr<int64_t>(),
                            .rows = scores.size(0),
                            .classes = scores.size(1),
                            .smoothing = static_cast<float>(smoothing)},
                           stream());
    // With p = exp(score - log_sum_exp), the gradient is factor * share * (p - target), with a
    // smoothed one-hot target. Probabilities are computed again instead of stored: one float per
    // row and not one per class.
    context->save_for_backward({scores, targets, log_sum_exp, share});
    context->saved_data["smoothing"] = smoothing;
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor& scores = saved[0];
    // The factor stays on the GPU: its value, such as the loss scale, is never read by the host.
    const Tensor factor = gradients[0].contiguous();
    const Tensor gradient = new_bf16(scores, scores.sizes());
    kernels::class_entropy_backward(
        {.gradient = bf16(gradient),
         .factor = f32(factor),
         .share = f32(saved[3]),
         .log_sum_exp = f32(saved[2]),
         .scores = bf16(scores),
         .targets = saved[1].data_ptr<int64_t>(),
         .rows = scores.size(0),
         .classes = scores.size(1),
         .smoothing = static_cast<float>(context->saved_data["smoothing"].toDouble())},
        stream());
    return {gradient, {}, {}};
  }
};

}  // namespace

Tensor fused_mean(const Tensor& features) {
  return MeanFunction::apply(features);
}

Tensor fused_class_entropy(const Tensor& scores, const Tensor& targets, double smoothing) {
  return EntropyFunction::apply(scores, targets, smoothing);
}

}  // namespace lockstep::models
