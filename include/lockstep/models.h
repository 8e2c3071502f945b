// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <torch/torch.h>
#include <utility>
#include <vector>

namespace lockstep {

// A network from images [N, channels, height, width] to one score per class.
class ImageClassifier : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;

  // The mean cross entropy, `smoothing` of each target belonging to all classes alike, and scores.
  // A target of -100 is left out; a faster way than this one makes NaN of others that are no class.
  virtual std::pair<torch::Tensor, torch::Tensor> loss_and_scores(const torch::Tensor& images,
                                                                  const torch::Tensor& targets,
                                                                  double smoothing);
};

struct DigitNetOptions {
  bool recompute = false;  // computes what lies between the layers again in backward: less memory
};

// A network for 28x28 digits by name; throws an Error that lists the names. Parameters bear the
// names of the well-known Python programs, so that weights travel both ways.
//
//   cnn      two 5x5 convolutions with batch norm, one linear layer (29 k parameters)
//   classic  conv32, conv64, fc128 with dropout, as in pytorch/examples (1.2 M parameters)
//   mlp      784-128-64-10 (109 k parameters)
std::shared_ptr<ImageClassifier> digit_net(const std::string& name,
                                           const DigitNetOptions& options = {});

std::vector<std::string> digit_net_names();

struct ResNetOptions {
  int64_t classes = 1000;
  bool small_images = false;     // for 64x64 and less: a 3x3 stem, nothing pooled after it
  bool zero_last_gamma = false;  // each block begins as what it is given
  bool recompute = false;        // computes the blocks again in backward: less memory
};

// resnet18, resnet34, resnet50, resnet101 or resnet152, with the parameter names of torchvision, so
// that weights travel both ways; throws an Error that lists the names.
//
// Images are floats that are normalised already, or bytes from 0 to 255, which it normalises itself
// with ImageNet's mean and deviation. On a GPU in bfloat16 it computes by parts of our own.
std::shared_ptr<ImageClassifier> resnet(const std::string& name, const ResNetOptions& options = {});

std::vector<std::string> resnet_names();

}  // namespace lockstep
