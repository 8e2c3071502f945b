// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <torch/torch.h>

#include "lockstep/checkpoint.h"
#include "lockstep/trainer.h"
#include "support/session.h"

namespace lockstep {

// A network whose initial weights do not depend on the generator, which ranks share as threads.
struct SmallNet : torch::nn::Module {
  SmallNet() {
    torch::NoGradGuard no_grad;
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{9});
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.3);
    }
  }

  torch::Tensor forward(const torch::Tensor& input) { return second(torch::relu(first(input))); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 16));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(16, 4));
};

inline DatasetPtr points(int64_t count) {
  torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{3});
  const torch::Tensor input = torch::randn({count, 8}, generator);
  return tensors(input, input.narrow(1, 0, 4).argmax(1));
}

inline torch::Tensor flat(const torch::nn::Module& model) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& parameter : model.parameters()) {
    all.push_back(parameter.detach().to(torch::kFloat64).flatten());
  }
  return torch::cat(all);
}

}  // namespace lockstep
