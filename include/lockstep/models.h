// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <torch/torch.h>
#include <vector>

namespace lockstep {

// A network from images [N, channels, height, width] to one score per class.
class ImageClassifier : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
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

}  // namespace lockstep
