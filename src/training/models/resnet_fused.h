// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <torch/nn.h>
#include <torch/types.h>
#include <vector>

// Parts of a ResNet that go by kernels of our own, forward and backward, on a GPU in bfloat16:
// convolutions are cuDNN's and cuBLASLt's, all that stands between them is ours. Images and
// features are [N, channels, height, width], in memory one pixel's channels after another's.
namespace lockstep::models {

// A convolution without a bias, and the batch norm after it.
struct ConvNorm {
  torch::nn::Conv2d conv = nullptr;
  torch::nn::BatchNorm2d norm = nullptr;
};

// What the parts of a network on one GPU share.
class ConvEngine;
using ConvEnginePtr = std::shared_ptr<ConvEngine>;

// The engine of the GPU that holds `weight`: `last`, if it is of that one. Null where parts with
// such weights must go libtorch's way: they compute in something else than bfloat16, workers share
// what batch norm sees, or the build is without CUDA.
ConvEnginePtr find_conv_engine(const torch::Tensor& weight, const ConvEnginePtr& last);

// Normalisation of bytes (value * scale + shift, three of each), a 7x7 convolution with stride 2,
// batch norm, ReLU, 3x3 pooling. Height and width are even.
struct StemCall {
  const ConvNorm& stem;
  std::array<float, 3> scale;  // of bytes; floats are taken as they are
  std::array<float, 3> shift;
};
torch::Tensor fused_stem(const ConvEnginePtr& engine,
                         const torch::Tensor& images,
                         const StemCall& call);

// `path` one after the other, with ReLU between them; then `shortcut` of the input, or the input
// itself, is added, and ReLU.
torch::Tensor fused_block(const ConvEnginePtr& engine,
                          const torch::Tensor& input,
                          const std::vector<ConvNorm>& path,
                          const std::optional<ConvNorm>& shortcut);

// The mean over each image's pixels, [N, channels] in bfloat16.
torch::Tensor fused_mean(const torch::Tensor& features);

// The mean cross entropy, in float32, of bfloat16 scores [N, classes], `smoothing` of each target
// belonging to all classes alike. A target of -100 is left out; another that is no
// class makes NaN.
torch::Tensor fused_class_entropy(const torch::Tensor& scores,
                                  const torch::Tensor& targets,
                                  double smoothing);

}  // namespace lockstep::models
