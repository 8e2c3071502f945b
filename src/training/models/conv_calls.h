// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include "training/kernels/batch_norm.h"
#include "training/kernels/matmul.h"
#include "training/models/kernel_calls.h"
#include "training/models/resnet_fused.h"

// Convolutions and batch norms of a ResNet on tensors, as kernel_calls.h has GPT-2's parts: each
// call allocates what it returns and queues on the current stream. No autograd here. Features are
// [N, channels, height, width] in bfloat16, in memory pixel by pixel.
namespace lockstep::models {

// What the parts of a network on one GPU share.
class ConvEngine {
 public:
  explicit ConvEngine(torch::Device where);

  kernels::Matmul matmul;
  torch::Device device;
};

constexpr auto kPixelByPixel = torch::MemoryFormat::ChannelsLast;

// A convolution and its batch norm, but for the trained numbers.
struct Layer {
  int64_t stride = 1;
  int64_t padding = 0;
  torch::Tensor running_mean;
  torch::Tensor running_variance;
  torch::Tensor batches;
  double momentum = 0.1;
  double epsilon = 1e-5;
};

Layer layer_of(const ConvNorm& part);

int64_t pixels(const torch::Tensor& features);

torch::Tensor new_features(const torch::Tensor& like,
                           int64_t channels,
                           int64_t height,
                           int64_t width);

// Of the same shape.
torch::Tensor new_like(const torch::Tensor& features);

// A convolution's trained numbers as they are computed with: by an operator, so that code that cuts
// up parameters sees it.
torch::Tensor as_weight(const torch::Tensor& parameter);

// A 1x1 convolution with stride 1 is a matrix product, here and in the gradients.
torch::Tensor convolve(ConvEngine& engine,
                       const torch::Tensor& input,
                       const torch::Tensor& weight,
                       const Layer& layer);

// One of both, of a convolution that is not a matrix product.
torch::Tensor convolution_gradient(const torch::Tensor& gradient,
                                   const torch::Tensor& input,
                                   const torch::Tensor& weight,
                                   const Layer& layer,
                                   bool of_input);

// In float32, in the order of the parameter.
torch::Tensor weight_gradient(ConvEngine& engine,
                              const torch::Tensor& gradient,
                              const torch::Tensor& input,
                              const torch::Tensor& weight,
                              const Layer& layer);

// With `addend`, unless that is undefined.
torch::Tensor input_gradient(ConvEngine& engine,
                             const torch::Tensor& gradient,
                             const torch::Tensor& input,
                             const torch::Tensor& weight,
                             const Layer& layer,
                             const torch::Tensor& addend);

// For the norms of one pass, one after the other.
torch::Tensor new_norm_workspace(const torch::Tensor& like);

// What statistics() returns, a row each: mean, rstd, scale, shift.
kernels::NormValues values_of(const torch::Tensor& rows);

torch::Tensor statistics(const torch::Tensor& features,
                         const torch::Tensor& weight,
                         const torch::Tensor& bias,
                         const Layer& layer,
                         const torch::Tensor& workspace);

// What backward wants of a batch norm, and where its results go.
struct Back {
  torch::Tensor features;
  torch::Tensor values;
  torch::Tensor weight_gradient = new_f32(features, {features.size(1)});
  torch::Tensor bias_gradient = new_f32(features, {features.size(1)});
  torch::Tensor factors = new_f32(features, {3, features.size(1)});
  torch::Tensor gradient = new_like(features);

  kernels::NormBack call() const {
    return {.input = bf16(features),
            .values = values_of(values),
            .weight_gradient = f32(weight_gradient),
            .bias_gradient = f32(bias_gradient),
            .factors = f32(factors),
            .input_gradient = bf16(gradient)};
  }
};

}  // namespace lockstep::models
