// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "lockstep/models.h"
#include "lockstep/recompute.h"
#include "training/models/class_entropy.h"
#include "training/models/resnet_parts.h"

namespace lockstep {
namespace {

namespace nn = torch::nn;
using models::ResidualBlock;
using models::Stem;

// Initial weights as in torchvision (He et al. 2015, fan-out).
void draw(nn::Module& model) {
  torch::NoGradGuard no_grad;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (const auto* convolution = module->as<nn::Conv2d>()) {
      nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
    }
  }
}

struct Shape {
  std::string name;
  std::vector<int64_t> blocks;
  bool is_bottleneck;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{"resnet18", {2, 2, 2, 2}, false},
                                      {"resnet34", {3, 4, 6, 3}, false},
                                      {"resnet50", {3, 4, 6, 3}, true},
                                      {"resnet101", {3, 4, 23, 3}, true},
                                      {"resnet152", {3, 8, 36, 3}, true}};
  return all;
}

// He et al. 2016, in the variant of torchvision: the 3x3 convolution of a bottleneck has the stride
// ("ResNet v1.5"). Names of modules are those of torchvision, so that its weights can be loaded.
class ResNet final : public ImageClassifier {
 public:
  ResNet(const Shape& shape, const ResNetOptions& options)
      : recomputes_(options.recompute), stem_(*this, options.small_images) {
    int64_t from = models::kStemWidth;
    int64_t width = models::kStemWidth;
    for (size_t stage = 0; stage < shape.blocks.size(); ++stage) {
      nn::Sequential layer;
      for (int64_t i = 0; i < shape.blocks[stage]; ++i) {
        const auto block = std::make_shared<ResidualBlock>(
            models::BlockShape{.from = from,
                               .width = width,
                               .stride = stage > 0 && i == 0 ? 2 : 1,
                               .is_bottleneck = shape.is_bottleneck});
        if (options.zero_last_gamma) {
          // Each block starts as the identity (Goyal et al. 2017).
          block->zero_last_gamma();
        }
        from = block->out();
        layer->push_back(block);
        blocks_.push_back(block);
      }
      register_module(fmt::format("layer{}", stage + 1), layer);
      width *= 2;
    }
    fc_ = register_module("fc", nn::Linear(from, options.classes));
    draw(*this);
  }

  torch::Tensor forward(torch::Tensor images) override {
    // The kernels compute the statistics of a batch; evaluation uses the running averages.
    const models::ConvEnginePtr engine =
        is_training() ? models::find_conv_engine(stem_.weight(), engine_) : nullptr;
    if (engine != nullptr) {
      engine_ = engine;
    }
    is_fused_ = engine != nullptr;
    torch::Tensor features = stem_.forward(images, engine);
    for (const auto& block : blocks_) {
      block->use(engine);
      features = recomputes_ ? recompute(*block, features) : block->forward(features);
    }
    return fc_(is_fused_ ? models::fused_mean(features)
                         : torch::adaptive_avg_pool2d(features, {1, 1}).flatten(1));
  }

  std::pair<torch::Tensor, torch::Tensor> loss_and_scores(const torch::Tensor& images,
                                                          const torch::Tensor& targets,
                                                          double smoothing) override {
    const torch::Tensor scores = forward(images);
    // The kernel supports class indices only. Everything else, such as probabilities as targets or
    // wrong shapes, is left to libtorch and its error messages.
    const bool is_fused = is_fused_ && scores.scalar_type() == torch::kBFloat16 &&
                          targets.scalar_type() == torch::kInt64 && targets.dim() == 1 &&
                          targets.size(0) == scores.size(0) &&
                          targets.device() == scores.device() && smoothing >= 0 && smoothing <= 1;
    return {is_fused ? models::fused_class_entropy(scores, targets, smoothing)
                     : models::class_entropy(scores, targets, smoothing),
            scores};
  }

 private:
  bool recomputes_;
  // Of the last pass that was fused. Passes without it, such as evaluation, must not release it:
  // the CUDA graph of a training step uses its workspace in every replay.
  models::ConvEnginePtr engine_;
  bool is_fused_ = false;  // the last forward pass
  Stem stem_;
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;
  nn::Linear fc_ = nullptr;
};

}  // namespace

std::shared_ptr<ImageClassifier> resnet(const std::string& name, const ResNetOptions& options) {
  for (const Shape& shape : shapes()) {
    if (shape.name == name) {
      return std::make_shared<ResNet>(shape, options);
    }
  }
  const std::vector<std::string> names = resnet_names();
  throw Error(ExitCode::Usage, fmt::format("unknown network '{}'", name))
      .fact("available", join(names, ", "))
      .hint(fmt::format("--net {}", find_closest(name, names).value_or("resnet50")));
}

std::vector<std::string> resnet_names() {
  std::vector<std::string> names;
  for (const Shape& shape : shapes()) {
    names.push_back(shape.name);
  }
  return names;
}

}  // namespace lockstep
