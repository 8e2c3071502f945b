// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include "training/kernels/batch_norm.h"
#include "training/kernels/matmul.h"
#include "training/models/kernel_calls.h"
#include "training/models/resnet_fused.h"

// Convolutions and batch norms of a ResNet, called with tensors; kernel_calls.h has the calls for
// GPT-2. Each call allocates its results and enqueues the kernels on the current stream. Autograd
// graphs are not recorded. Features are [N, channels, height, width] in bfloat16, stored
// channels-last.
namespace lockstep::models {

// State shared by all parts of a network on one GPU.
class ConvEngine {
 public:
  explicit ConvEngine(torch::Device where);

  kernels::Matmul matmul;
  torch::Device device;
};

constexpr auto kPixelByPixel = torch::MemoryFormat::ChannelsLast;

// Settings and buffers of a convolution and its batch norm, without their parameters.
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

// Allocates uninitialized features with the same shape.
torch::Tensor new_like(const torch::Tensor& features);

// Returns the weight of a convolution as a bfloat16 copy. The copy is made by an operator, so that
// strategies that partition parameters can gather the parameter first.
torch::Tensor as_weight(const torch::Tensor& parameter);

// Computes 1x1 convolutions with stride 1 as matrix products; so do the gradients below.
torch::Tensor convolve(ConvEngine& engine,
                       const torch::Tensor& input,
                       const torch::Tensor& weight,
                       const Layer& layer);

// Returns the gradient of the input or of the weight, for convolutions that are not matrix
// products.
torch::Tensor convolution_gradient(const torch::Tensor& gradient,
                                   const torch::Tensor& input,
                                   const torch::Tensor& weight,
                                   const Layer& layer,
                                   bool of_input);

// The result is float32 and has the memory layout of the parameter.
torch::Tensor weight_gradient(ConvEngine& engine,
                              const torch::Tensor& gradient,
                              const torch::Tensor& input,
                              const torch::Tensor& weight,
                              const Layer& layer);

// Adds `addend` to the gradient if it is defined.
torch::Tensor input_gradient(ConvEngine& engine,
                             const torch::Tensor& gradient,
                             const torch::Tensor& input,
                             const torch::Tensor& weight,
                             const Layer& layer,
                             const torch::Tensor& addend);

// The batch norms of one pass share a workspace, because they run one after the other.
torch::Tensor new_norm_workspace(const torch::Tensor& like);

// `rows` is the result of statistics(): one row each for mean, rstd, scale and shift.
kernels::NormValues values_of(const torch::Tensor& rows);

torch::Tensor statistics(const torch::Tensor& features,
                         const torch::Tensor& weight,
                         const torch::Tensor& bias,
                         const Layer& layer,
                         const torch::Tensor& workspace);

// Inputs and outputs of the backward pass of one batch norm.
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
