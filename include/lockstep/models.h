// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <utility>
#include <vector>

namespace lockstep {

// A network that maps images [N, channels, height, width] to one score per class. The base class of
// the models below, so that one program can train any of them:
//
//   std::shared_ptr<ImageClassifier> net = resnet("resnet50", {.classes = 200});
//   trainer.fit(*net, *sgd, images.train, images.test, lockstep::CrossEntropy());
//
// Thread safety is that of a torch::nn::Module: use a model from one thread. Strategies with
// replicas call the methods on several models concurrently.
class ImageClassifier : public torch::nn::Module {
 public:
  // Returns the scores [N, classes].
  virtual torch::Tensor forward(torch::Tensor images) = 0;

  // Returns the mean cross entropy with label smoothing `smoothing`, and the scores. Targets of
  // -100 are ignored. Override it if the model can compute both faster than by forward(); such an
  // implementation returns NaN for any other target that is not a class.
  virtual std::pair<torch::Tensor, torch::Tensor> loss_and_scores(const torch::Tensor& images,
                                                                  const torch::Tensor& targets,
                                                                  double smoothing);
};

// How digit_net() computes.
struct DigitNetOptions {
  // Recomputes the activations between the layers in backward to save memory.
  bool recompute = false;
};

// Returns a network for 28x28 digits. The parameters have the names of the well-known Python
// programs, so that weights can be exchanged in both directions. Throws an Error that lists the
// names if `name` is not one of them.
//
//   cnn      two 5x5 convolutions with batch norm, one linear layer (29 k parameters)
//   classic  conv32, conv64, fc128 with dropout, as in pytorch/examples (1.2 M parameters)
//   mlp      784-128-64-10 (109 k parameters)
std::shared_ptr<ImageClassifier> digit_net(const std::string& name,
                                           const DigitNetOptions& options = {});

// The names that digit_net() accepts.
std::vector<std::string> digit_net_names();

// The size of a ResNet and how it computes.
//
//   resnet("resnet18", {.classes = 200, .small_images = true});  // TinyImageNet
struct ResNetOptions {
  // ---- behaviour

  int64_t classes = 1000;
  // For images up to 64x64: a 3x3 stem without pooling.
  bool small_images = false;
  // Initializes the last batch norm of each block with zero, so that each block starts as identity.
  bool zero_last_gamma = false;

  // ---- performance

  // Recomputes the activations of the blocks in backward to save memory.
  bool recompute = false;
};

// Returns resnet18, resnet34, resnet50, resnet101 or resnet152 with the parameter names of
// torchvision, so that weights can be exchanged in both directions. Throws an Error that lists the
// names if `name` is not one of them.
//
// Images are either normalized floats, or bytes from 0 to 255, which the model normalizes with the
// mean and standard deviation of ImageNet. On a GPU in bfloat16, lockstep's fused kernels compute
// parts of the network.
std::shared_ptr<ImageClassifier> resnet(const std::string& name, const ResNetOptions& options = {});

// The names that resnet() accepts.
std::vector<std::string> resnet_names();

}  // namespace lockstep
