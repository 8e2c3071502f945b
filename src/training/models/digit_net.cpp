// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <torch/nn.h>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "lockstep/models.h"
#include "lockstep/recompute.h"

namespace lockstep {
namespace {

namespace nn = torch::nn;

// Two 5x5 convolutions with batch norm; names as in CSC's mnist_ddp.py.
class DigitCnn final : public ImageClassifier {
 public:
  explicit DigitCnn(const DigitNetOptions& options)
      : recomputes_(options.recompute),
        layer1_(register_module("layer1", block(1, 16))),
        layer2_(register_module("layer2", block(16, 32))),
        fc_(register_module("fc", nn::Linear(7 * 7 * 32, 10))) {}

  torch::Tensor forward(torch::Tensor images) override {
    if (recomputes_) {
      return fc_(recompute(layer2_, recompute(layer1_, images)).flatten(1));
    }
    return fc_(layer2_->forward(layer1_->forward(images)).flatten(1));
  }

 private:
  static nn::Sequential block(int64_t from, int64_t to) {
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(from, to, 5).padding(2)),
                          nn::BatchNorm2d(to),
                          nn::ReLU(),
                          nn::MaxPool2d(nn::MaxPool2dOptions(2)));
  }

  bool recomputes_;
  nn::Sequential layer1_;
  nn::Sequential layer2_;
  nn::Linear fc_;
};

// Names as in pytorch/examples' mnist.
class ClassicNet final : public ImageClassifier {
 public:
  explicit ClassicNet(const DigitNetOptions& options)
      : recomputes_(options.recompute),
        conv1_(register_module("conv1", nn::Conv2d(1, 32, 3))),
        conv2_(register_module("conv2", nn::Conv2d(32, 64, 3))),
        dropout1_(register_module("dropout1", nn::Dropout(0.25))),
        dropout2_(register_module("dropout2", nn::Dropout(0.5))),
        fc1_(register_module("fc1", nn::Linear(9216, 128))),
        fc2_(register_module("fc2", nn::Linear(128, 10))) {}

  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor features =
        recomputes_
            ? recompute(
                  {.forward = [this](const auto& again) { return convolve(again); },
                   .parameters = {conv1_->weight, conv1_->bias, conv2_->weight, conv2_->bias}},
                  images)
            : convolve(images);
    return fc2_(dropout2_(torch::relu(fc1_(features))));
  }

 private:
  torch::Tensor convolve(const torch::Tensor& images) {
    const torch::Tensor features = torch::relu(conv2_(torch::relu(conv1_(images))));
    return dropout1_(torch::max_pool2d(features, 2)).flatten(1);
  }

  bool recomputes_;
  nn::Conv2d conv1_;
  nn::Conv2d conv2_;
  nn::Dropout dropout1_;
  nn::Dropout dropout2_;
  nn::Linear fc1_;
  nn::Linear fc2_;
};

class DigitMlp final : public ImageClassifier {
 public:
  explicit DigitMlp(const DigitNetOptions& options)
      : recomputes_(options.recompute),
        fc1_(register_module("fc1", nn::Linear(784, 128))),
        fc2_(register_module("fc2", nn::Linear(128, 64))),
        fc3_(register_module("fc3", nn::Linear(64, 10))) {}

  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor features =
        recomputes_
            ? recompute({.forward = [this](const auto& again) { return hide(again); },
                         .parameters = {fc1_->weight, fc1_->bias, fc2_->weight, fc2_->bias}},
                        images)
            : hide(images);
    return fc3_(features);
  }

 private:
  torch::Tensor hide(const torch::Tensor& images) {
    return torch::relu(fc2_(torch::relu(fc1_(images.flatten(1)))));
  }

  bool recomputes_;
  nn::Linear fc1_;
  nn::Linear fc2_;
  nn::Linear fc3_;
};

}  // namespace

std::shared_ptr<ImageClassifier> digit_net(const std::string& name,
                                           const DigitNetOptions& options) {
  if (name == "cnn") {
    return std::make_shared<DigitCnn>(options);
  }
  if (name == "classic") {
    return std::make_shared<ClassicNet>(options);
  }
  if (name == "mlp") {
    return std::make_shared<DigitMlp>(options);
  }
  const std::vector<std::string> names = digit_net_names();
  throw Error(ExitCode::Usage, fmt::format("unknown network '{}'", name))
      .fact("available", join(names, ", "))
      .hint(fmt::format("--net {}", find_closest(name, names).value_or(names.front())));
}

std::vector<std::string> digit_net_names() {
  return {"cnn", "classic", "mlp"};
}

}  // namespace lockstep
