// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <lockstep/lockstep.h>
#include <vector>

namespace lockstep {

// A chain of linear layers of the same size, so that gradients become ready evenly during backward.
struct Stack : torch::nn::Module {
  Stack(int64_t layers, int64_t width) {
    for (int64_t i = 0; i < layers; ++i) {
      blocks.push_back(register_module(fmt::format("layer{}", i), torch::nn::Linear(width, width)));
    }
  }

  torch::Tensor forward(torch::Tensor values) {
    for (torch::nn::Linear& block : blocks) {
      values = torch::tanh(block(values));
    }
    return values;
  }

  std::vector<torch::nn::Linear> blocks;
};

// Mean squared difference between the output of a Stack and the target.
inline Loss stack_loss(torch::nn::Module& any, const Batch& batch) {
  return Loss((dynamic_cast<Stack&>(any).forward(batch.input) - batch.target).pow(2).mean());
}

}  // namespace lockstep
