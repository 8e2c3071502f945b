// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/torch.h>
#include <vector>

#include "lockstep/checkpoint.h"
#include "lockstep/strategy.h"

namespace lockstep::train {

// An exponential moving average of a model's parameters: average = d average + (1 - d) weights
// after each step, where d = min(decay, (1 + t) / (10 + t)) after t steps, so that the first
// weights, which are random, are soon forgotten. Where the Strategy cuts the weights up, each
// worker has the average of what it updates; else it is the same on every worker, because the
// weights are.
class Ema {
 public:
  // Begins with the weights as they are. `strategy` has adopted `model`; both outlive this.
  Ema(torch::nn::Module& model, Strategy& strategy, double decay);

  void update();

  int64_t updates() const { return updates_; }

  // What this worker has for a checkpoint, as ema.NAME: with what the others have, a whole model
  // that can be loaded, with averages for parameters. Not copies.
  std::vector<TensorPiece> pieces() const;

  // Goes on from what `source` has as ema.NAME. Throws an Error that names what is missing.
  void restore(const PieceSource& source, int64_t updates);

  // Until end() the model has the averages as its parameters. All workers make one, and end it.
  class Scope {
   public:
    explicit Scope(const Ema& ema);
    // Without end(), when something went wrong: gives the optimizer its weights back, and talks to
    // nobody, so that the parameters of a model that is cut up do not follow.
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    void end();

   private:
    void give_back();

    const Ema& ema_;
    std::vector<torch::Tensor> trained_;
  };

 private:
  // Of the model, or of what the Strategy has of it.
  std::vector<TensorPiece> model_pieces() const;
  torch::Tensor find_average(const torch::Tensor& values) const;

  torch::nn::Module& model_;
  Strategy& strategy_;
  double decay_;
  int64_t updates_ = 0;
  std::vector<TensorPiece> weights_;  // what is updated, by the parameter's name
  std::vector<torch::Tensor> averages_;
};

}  // namespace lockstep::train
