// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/checkpoint.h"
#include "lockstep/strategy.h"

namespace lockstep::train {

// An exponential moving average of the parameters of a model. After step t:
//
//   average = d * average + (1 - d) * weights,    d = min(decay, (1 + t) / (10 + t))
//
// The second term of the minimum is the warm-up of TensorFlow's ExponentialMovingAverage: it
// removes the random initial weights quickly. If the Strategy partitions the weights, each worker
// averages the shards that it updates. Otherwise every worker holds the same averages, because the
// weights are the same.
class Ema {
 public:
  // Starts with the current weights. `strategy` must have adopted `model`; both must outlive this.
  Ema(torch::nn::Module& model, Strategy& strategy, double decay);

  void update();

  int64_t updates() const { return updates_; }

  // Returns the pieces of this worker for a checkpoint, named ema.NAME. The pieces of all workers
  // together are a complete model that contains averages instead of parameters. Views, not copies.
  std::vector<TensorPiece> pieces() const;

  // Continues from the tensors ema.NAME of `source`. Throws an Error that names a missing tensor.
  void restore(const PieceSource& source, int64_t updates);

  // Replaces the parameters of the model by the averages until end(). All workers must create a
  // scope and call end().
  class Scope {
   public:
    explicit Scope(const Ema& ema);
    // Without end(), after an exception: restores the weights of the optimizer without
    // communication, because the other workers might not take part. The parameters of a partitioned
    // model then keep the averages.
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
  // The pieces of the model, or those that the Strategy holds on this worker.
  std::vector<TensorPiece> model_pieces() const;
  torch::Tensor find_average(const torch::Tensor& values) const;

  torch::nn::Module& model_;
  Strategy& strategy_;
  double decay_;
  int64_t updates_ = 0;
  std::vector<TensorPiece> weights_;  // tensors that the optimizer updates, by parameter name
  std::vector<torch::Tensor> averages_;
};

}  // namespace lockstep::train
