// SPDX-License-Identifier: Apache-2.0
#include "training/models/resnet_parts.h"

#include <algorithm>
#include <array>
#include <torch/nn.h>
#include <torch/utils.h>

namespace lockstep::models {
namespace {

namespace nn = torch::nn;

// Mean and standard deviation of the training images of ImageNet, in the range 0 to 1.
constexpr std::array<double, 3> kMean{0.485, 0.456, 0.406};
constexpr std::array<double, 3> kDeviation{0.229, 0.224, 0.225};

// A byte becomes byte * scale + shift: (byte / 255 - mean) / deviation.
struct Normalisation {
  std::array<float, 3> scale;
  std::array<float, 3> shift;
};

constexpr Normalisation normalisation() {
  Normalisation result{};
  for (size_t i = 0; i < kMean.size(); ++i) {
    result.scale[i] = static_cast<float>(1 / (255 * kDeviation[i]));
    result.shift[i] = static_cast<float>(-kMean[i] / kDeviation[i]);
  }
  return result;
}

// Returns float32, or float64 for a float64 network.
torch::Tensor normalised(const torch::Tensor& images, torch::ScalarType of_network) {
  if (images.scalar_type() != torch::kUInt8) {
    return images;
  }
  constexpr Normalisation kNormalisation = normalisation();
  torch::Tensor result = images.to(of_network == torch::kFloat64 ? of_network : torch::kFloat32);
  // Colour by colour: the constants are kernel arguments, which avoids a copy that the GPU would
  // have to wait for.
  for (int64_t i = 0; i < images.size(1); ++i) {
    const auto colour = static_cast<size_t>(i);
    result.select(1, i).mul_(kNormalisation.scale.at(colour)).add_(kNormalisation.shift.at(colour));
  }
  return result;
}

nn::Conv2d convolution(int64_t from, int64_t to, int64_t size, int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(from, to, size).stride(stride).padding(size / 2).bias(false));
}

// Each batch norm is checked, because it can be in evaluation mode by itself. The kernels update
// the running averages with a fixed momentum; without one, PyTorch uses a cumulative average.
bool can_fuse(const ConvNorm& part) {
  return part.norm->is_training() && part.norm->options.track_running_stats() &&
         part.norm->options.momentum().has_value();
}

}  // namespace

Stem::Stem(nn::Module& owner, bool small_images)
    : is_small_(small_images),
      conv_(owner.register_module(
          "conv1",
          small_images ? convolution(3, kStemWidth, 3, 1) : convolution(3, kStemWidth, 7, 2))),
      norm_(owner.register_module("bn1", nn::BatchNorm2d(kStemWidth))) {}

torch::Tensor Stem::forward(const torch::Tensor& images, const ConvEnginePtr& engine) {
  // Multiples of 4: the large stem halves the size twice, and its kernels work on pairs of rows
  // and columns both times.
  const bool fits = images.dim() == 4 && images.size(1) == 3 &&
                    (is_small_ || (images.size(2) % 4 == 0 && images.size(3) % 4 == 0)) &&
                    images.device() == conv_->weight.device();
  if (engine != nullptr && fits && can_fuse({conv_, norm_})) {
    constexpr Normalisation kNormalisation = normalisation();
    return fused_stem(engine,
                      images,
                      {.stem = {conv_, norm_},
                       .is_small = is_small_,
                       .scale = kNormalisation.scale,
                       .shift = kNormalisation.shift});
  }
  torch::Tensor input = normalised(images, conv_->weight.scalar_type());
  if (!input.is_cuda()) {
    // Gradients then have the memory layout of the weights, which the gradient buckets rely on.
    input = input.contiguous();
  }
  const torch::Tensor features = torch::relu(norm_(conv_(input)));
  return is_small_ ? features : torch::max_pool2d(features, 3, 2, 1);
}

ResidualBlock::ResidualBlock(const BlockShape& shape)
    : out_(shape.is_bottleneck ? 4 * shape.width : shape.width) {
  const auto add = [&](int64_t from, int64_t to, int64_t size, int64_t stride) {
    const std::string number = std::to_string(path_.size() + 1);
    path_.push_back({register_module("conv" + number, convolution(from, to, size, stride)),
                     register_module("bn" + number, nn::BatchNorm2d(to))});
  };
  if (shape.is_bottleneck) {
    add(shape.from, shape.width, 1, 1);
    add(shape.width, shape.width, 3, shape.stride);
    add(shape.width, out_, 1, 1);
  } else {
    add(shape.from, shape.width, 3, shape.stride);
    add(shape.width, out_, 3, 1);
  }
  if (shape.stride != 1 || shape.from != out_) {
    shortcut_ = {convolution(shape.from, out_, 1, shape.stride), nn::BatchNorm2d(out_)};
    register_module("downsample", nn::Sequential(shortcut_->conv, shortcut_->norm));
  }
}

void ResidualBlock::zero_last_gamma() {
  torch::NoGradGuard no_grad;
  path_.back().norm->weight.zero_();
}

torch::Tensor ResidualBlock::forward(const torch::Tensor& input) {
  const bool is_fused = engine_ != nullptr && std::all_of(path_.begin(), path_.end(), can_fuse) &&
                        (!shortcut_ || can_fuse(*shortcut_));
  return is_fused ? fused_block(engine_, input, path_, shortcut_) : plain_forward(input);
}

torch::Tensor ResidualBlock::plain_forward(const torch::Tensor& input) {
  torch::Tensor features = input;
  for (size_t i = 0; i < path_.size(); ++i) {
    features = path_[i].norm(path_[i].conv(features));
    if (i + 1 < path_.size()) {
      features = torch::relu_(features);
    }
  }
  const torch::Tensor shortcut = shortcut_ ? shortcut_->norm(shortcut_->conv(input)) : input;
  return torch::relu(features + shortcut);
}

}  // namespace lockstep::models
