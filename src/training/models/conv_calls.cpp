// SPDX-License-Identifier: Apache-2.0
#include "training/models/conv_calls.h"

#include <ATen/Context.h>

namespace lockstep::models {
namespace {

using torch::Tensor;

// A 1 x 1 convolution with stride 1 over pixels is the matrix product [pixels, in] x [in, out].
// Most convolutions of ResNet-50 are of this kind, and cuBLASLt can add the shortcut in the
// same kernel.
bool is_product(const Tensor& weight, const Layer& layer) {
  return weight.size(2) == 1 && layer.stride == 1;
}

}  // namespace

ConvEngine::ConvEngine(torch::Device where) : device(where) {
  // cuDNN times its algorithms for each shape and keeps the fastest. libtorch has one such switch
  // for the whole process. It stays off if bitwise reproducible results are requested.
  if (!at::globalContext().deterministicCuDNN()) {
    at::globalContext().setBenchmarkCuDNN(true);
  }
}

Layer layer_of(const ConvNorm& part) {
  const auto& norm = *part.norm;
  return {.stride = part.conv->options.stride()->front(),
          .padding = part.conv->weight.size(2) / 2,
          .running_mean = norm.running_mean,
          .running_variance = norm.running_var,
          .batches = norm.num_batches_tracked,
          .momentum = norm.options.momentum().value_or(0.1),
          .epsilon = norm.options.eps()};
}

int64_t pixels(const Tensor& features) {
  return features.size(0) * features.size(2) * features.size(3);
}

Tensor new_features(const Tensor& like, int64_t channels, int64_t height, int64_t width) {
  return torch::empty(
      {like.size(0), channels, height, width},
      like.options().dtype(torch::kBFloat16).requires_grad(false).memory_format(kPixelByPixel));
}

Tensor convolve(ConvEngine& engine, const Tensor& input, const Tensor& weight, const Layer& layer) {
  if (!is_product(weight, layer)) {
    // cuDNN returns NHWC for NHWC inputs; contiguous() is then free. Other backends may return
    // NCHW.
    return at::convolution(input,
                           weight,
                           {},
                           {layer.stride, layer.stride},
                           {layer.padding, layer.padding},
                           {1, 1},
                           false,
                           {0, 0},
                           1)
        .contiguous(kPixelByPixel);
  }
  Tensor output = new_features(input, weight.size(0), input.size(2), input.size(3));
  engine.matmul.run({.output = output.data_ptr(),
                     .left = bf16(input),
                     .right = bf16(weight),
                     .right_transposed = true,
                     .m = pixels(input),
                     .n = weight.size(0),
                     .k = weight.size(1)},
                    stream());
  return output;
}

// One gradient per call: the flags at the end keep cuDNN from computing the others.
Tensor convolution_gradient(const Tensor& gradient,
                            const Tensor& input,
                            const Tensor& weight,
                            const Layer& layer,
                            bool of_input) {
  const auto both = at::convolution_backward(gradient,
                                             input,
                                             weight,
                                             at::OptionalIntArrayRef(),
                                             {layer.stride, layer.stride},
                                             {layer.padding, layer.padding},
                                             {1, 1},
                                             false,
                                             {0, 0},
                                             1,
                                             {of_input, !of_input, false});
  return of_input ? std::get<0>(both).contiguous(kPixelByPixel) : std::get<1>(both);
}

// For a product Y [pixels, out] = X [pixels, in] W^T, the gradients are dW = dY^T X and dX = dY W.
// dW is a sum over all pixels of the batch and is therefore kept in float32.
Tensor weight_gradient(ConvEngine& engine,
                       const Tensor& gradient,
                       const Tensor& input,
                       const Tensor& weight,
                       const Layer& layer) {
  Tensor result = new_f32(weight, weight.sizes());
  if (!is_product(weight, layer)) {
    return result.copy_(convolution_gradient(gradient, input, weight, layer, /*of_input=*/false));
  }
  engine.matmul.run({.output = result.data_ptr(),
                     .float_output = true,
                     .left = bf16(gradient),
                     .right = bf16(input),
                     .left_transposed = true,
                     .m = weight.size(0),
                     .n = weight.size(1),
                     .k = pixels(input)},
                    stream());
  return result;
}

Tensor input_gradient(ConvEngine& engine,
                      const Tensor& gradient,
                      const Tensor& input,
                      const Tensor& weight,
                      const Layer& layer,
                      const Tensor& addend) {
  if (!is_product(weight, layer)) {
    Tensor result = convolution_gradient(gradient, input, weight, layer, /*of_input=*/true);
    return addend.defined() ? result.add_(addend) : result;
  }
  Tensor result = new_features(input, weight.size(1), input.size(2), input.size(3));
  engine.matmul.run({.output = result.data_ptr(),
                     .left = bf16(gradient),
                     .right = bf16(weight),
                     .m = pixels(input),
                     .n = weight.size(1),
                     .k = weight.size(0),
                     .addend = addend.defined() ? bf16(addend) : nullptr},
                    stream());
  return result;
}

Tensor new_norm_workspace(const Tensor& like) {
  // The counters must be zero before the first kernel; each kernel leaves them so.
  Tensor workspace = new_workspace(like, kernels::batch_norm_workspace());
  workspace.narrow(0, 0, kernels::kNormCounters).zero_();
  return workspace;
}

// `rows` is [4, channels]: mean, rstd, scale = weight * rstd, shift = bias - mean * scale.
kernels::NormValues values_of(const Tensor& rows) {
  const int64_t channels = rows.size(1);
  float* first = f32(rows);
  return {.mean = first,
          .rstd = first + channels,
          .scale = first + 2 * channels,
          .shift = first + 3 * channels};
}

Tensor statistics(const Tensor& features,
                  const Tensor& weight,
                  const Tensor& bias,
                  const Layer& layer,
                  const Tensor& workspace) {
  Tensor rows = new_f32(features, {4, features.size(1)});
  const Tensor scale = copy_f32(weight);
  const Tensor shift = copy_f32(bias);
  kernels::batch_norm_statistics(
      {.values = values_of(rows),
       .running_mean = f32(layer.running_mean),
       .running_variance = f32(layer.running_variance),
       .batches = layer.batches.defined() ? layer.batches.data_ptr<int64_t>() : nullptr,
       .input = bf16(features),
       .weight = f32(scale),
       .bias = f32(shift),
       .workspace = workspace.data_ptr(),
       .rows = pixels(features),
       .channels = features.size(1),
       .momentum = static_cast<float>(layer.momentum),
       .epsilon = static_cast<float>(layer.epsilon)},
      stream());
  return rows;
}

Tensor new_like(const Tensor& features) {
  return new_features(features, features.size(1), features.size(2), features.size(3));
}

// A copy, for the reason at copy_bf16(). In NHWC the weight of a 1 x 1 convolution is the matrix
// [out, in].
Tensor as_weight(const Tensor& parameter) {
  return parameter.detach().to(
      torch::kBFloat16, /*non_blocking=*/false, /*copy=*/true, kPixelByPixel);
}

}  // namespace lockstep::models
