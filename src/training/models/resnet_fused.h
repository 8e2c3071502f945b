// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <torch/nn.h>
#include <torch/types.h>
#include <vector>

// Fused parts of a ResNet, forward and backward, on a GPU in bfloat16. Convolutions use cuDNN and
// cuBLASLt; all operators between them use kernels of lockstep. Images and features are [N,
// channels, height, width], stored channels-last.
namespace lockstep::models {

// A convolution without bias, followed by batch norm.
struct ConvNorm {
  torch::nn::Conv2d conv = nullptr;
  torch::nn::BatchNorm2d norm = nullptr;
};

// State shared by all parts of a network on one GPU.
class ConvEngine;
using ConvEnginePtr = std::shared_ptr<ConvEngine>;

// Returns the engine for the GPU of `weight`, which is `last` if it belongs to that GPU. Returns
// null if the operators of libtorch must be used: the computation is not in bfloat16 on a GPU,
// batch norm is synchronized between workers, or the build has no CUDA.
ConvEnginePtr find_conv_engine(const torch::Tensor& weight, const ConvEnginePtr& last);

// Normalizes bytes (value * scale + shift per colour), then applies a 7x7 convolution with stride
// 2, batch norm, ReLU and 3x3 max pooling; height and width must be even. For small images: a 3x3
// convolution with stride 1, batch norm and ReLU.
struct StemCall {
  const ConvNorm& stem;
  bool is_small = false;
  std::array<float, 3> scale;  // for bytes; floats are not normalized
  std::array<float, 3> shift;
};
torch::Tensor fused_stem(const ConvEnginePtr& engine,
                         const torch::Tensor& images,
                         const StemCall& call);

// Applies the parts of `path` in order, with ReLU between them, then adds shortcut(input), or the
// input itself without a shortcut, and applies ReLU.
torch::Tensor fused_block(const ConvEnginePtr& engine,
                          const torch::Tensor& input,
                          const std::vector<ConvNorm>& path,
                          const std::optional<ConvNorm>& shortcut);

// Returns the mean over the pixels of each image, [N, channels] in bfloat16.
torch::Tensor fused_mean(const torch::Tensor& features);

// Computes the mean cross entropy in float32 from bfloat16 scores [N, classes]. Label smoothing
// spreads `smoothing` of each target evenly over all classes. Targets of -100 are ignored; any
// other invalid target yields NaN.
torch::Tensor fused_class_entropy(const torch::Tensor& scores,
                                  const torch::Tensor& targets,
                                  double smoothing);

}  // namespace lockstep::models
