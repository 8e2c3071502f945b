// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/torch.h>
#include <vector>

#include "lockstep/checkpoint.h"

namespace lockstep::train {

// An exponential moving average of a model's parameters: average = d average + (1 - d) weights
// after each step, where d = min(decay, (1 + t) / (10 + t)) after t steps, so that the first
// weights, which are random, are soon forgotten. The same on every worker, because the weights are.
class Ema {
 public:
  // Begins with the weights as they are.
  Ema(torch::nn::Module& model, double decay);

  void update();

  int64_t updates() const { return updates_; }

  // The averages by the names of `model`'s parameters, with its buffers: a whole model that can be
  // loaded. Not copies.
  NamedTensors tensors() const;

  // Goes on from `saved`, which may hold more than parameters. Throws an Error that names what is
  // missing.
  void restore(const NamedTensors& saved, int64_t updates);

  // While it lives, the model has the averages as its parameters.
  class Scope {
   public:
    explicit Scope(const Ema& ema);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Ema& ema_;
    std::vector<torch::Tensor> trained_;
  };

 private:
  torch::nn::Module& model_;
  double decay_;
  int64_t updates_ = 0;
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> averages_;
};

}  // namespace lockstep::train
