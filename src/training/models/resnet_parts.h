// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/nn.h>
#include <torch/types.h>

#include "training/models/resnet_fused.h"

// What a ResNet is made of, with torchvision's names. Each part goes by kernels of our own where it
// can (resnet_fused.h), else by libtorch's.
namespace lockstep::models {

constexpr int64_t kStemWidth = 64;

// From the image to what the first block gets: conv1 and bn1 of `owner`.
class Stem {
 public:
  Stem(torch::nn::Module& owner, bool small_images);

  // `engine` may be null.
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

// Two 3x3 convolutions, or 1x1, 3x3 (which has the stride) and 1x1 with four times the width; then
// what the block was given is added, through a convolution of its own where the shapes differ.
class ResidualBlock : public torch::nn::Module {
 public:
  explicit ResidualBlock(const BlockShape& shape);

  torch::Tensor forward(const torch::Tensor& input);

  // What forward() goes by from now on; null: libtorch.
  void use(ConvEnginePtr engine) { engine_ = std::move(engine); }

  int64_t out() const { return out_; }

  // The block then begins as what it is given.
  void zero_last_gamma();

 private:
  torch::Tensor plain_forward(const torch::Tensor& input);

  int64_t out_;
  ConvEnginePtr engine_;
  std::vector<ConvNorm> path_;
  std::optional<ConvNorm> shortcut_;
};

}  // namespace lockstep::models
