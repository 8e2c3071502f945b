// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/nn.h>
#include <torch/types.h>

#include "training/models/resnet_fused.h"

// The parts of a ResNet, with the names of torchvision. Each part uses the fused kernels where
// possible (resnet_fused.h), otherwise the operators of libtorch.
namespace lockstep::models {

constexpr int64_t kStemWidth = 64;

// The layers before the first block; registers conv1 and bn1 in `owner`.
class Stem {
 public:
  Stem(torch::nn::Module& owner, bool small_images);

  // `engine` can be null.
  torch::Tensor forward(const torch::Tensor& images, const ConvEnginePtr& engine);

  const torch::Tensor& weight() const { return conv_->weight; }

 private:
  bool is_small_;
  torch::nn::Conv2d conv_ = nullptr;
  torch::nn::BatchNorm2d norm_ = nullptr;
};

struct BlockShape {
  int64_t from = 64;
  int64_t width = 64;
  int64_t stride = 1;
  bool is_bottleneck = false;
};

// Two 3x3 convolutions, or a bottleneck: 1x1, 3x3 (with the stride) and 1x1 to four times the
// width. The input is added to the result, through a convolution of its own if the shapes differ.
class ResidualBlock : public torch::nn::Module {
 public:
  explicit ResidualBlock(const BlockShape& shape);

  torch::Tensor forward(const torch::Tensor& input);

  // Selects the engine for later calls of forward(); null: operators of libtorch.
  void use(ConvEnginePtr engine) { engine_ = std::move(engine); }

  int64_t out() const { return out_; }

  // Makes the block start as the identity.
  void zero_last_gamma();

 private:
  torch::Tensor plain_forward(const torch::Tensor& input);

  int64_t out_;
  ConvEnginePtr engine_;
  std::vector<ConvNorm> path_;
  std::optional<ConvNorm> shortcut_;
};

}  // namespace lockstep::models
