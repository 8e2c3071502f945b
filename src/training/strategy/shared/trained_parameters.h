// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <vector>

namespace lockstep::strategy {

struct TrainedParameters {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> names;
};

// The parameters that require a gradient; a parameter that two modules share appears once. Throws
// an Error if there are none.
TrainedParameters trained_parameters(const torch::nn::Module& model);

// Parameters and buffers, which must be equal on all workers.
std::vector<torch::Tensor> whole_state(const torch::nn::Module& model);

}  // namespace lockstep::strategy
