// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/optim.h>
#include <torch/types.h>
#include <tuple>
#include <utility>
#include <vector>

// Muon, an optimizer that makes the update of each matrix orthogonal.
//
//   auto muon = session.make_optimizer(*net, {.name = "muon", .lr = 0.02});
//
// This creates three parameter groups: the matrices, and two groups that AdamW updates. A program
// that creates the groups itself calls the constructor below:
//
//   const auto adamw = MuonOptions(3e-4).is_matrix(false);
//   Muon muon({OptimizerParamGroup(matrices),
//              OptimizerParamGroup(others, std::make_unique<MuonOptions>(adamw))},
//             MuonOptions(0.02));
namespace lockstep {

// Options of one parameter group of Muon.
struct MuonOptions : public torch::optim::OptimizerCloneableOptions<MuonOptions> {
  using Betas = std::tuple<double, double>;

  // Implicit, like the options of libtorch's optimizers: Muon(groups, 0.02).
  MuonOptions(double lr = 0.02) : lr_(lr) {}  // NOLINT(google-explicit-constructor)

  TORCH_ARG(double, lr) = 0.02;
  // Decoupled from the momentum, as in AdamW.
  TORCH_ARG(double, weight_decay) = 0;
  // Whether the parameters of the group are matrices, which Muon updates. AdamW updates the others.
  TORCH_ARG(bool, is_matrix) = true;
  TORCH_ARG(double, momentum) = 0.95;                    // matrices only
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.95);  // AdamW only
  TORCH_ARG(double, eps) = 1e-8;                         // AdamW only

 public:
  double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

// The state of one parameter. A matrix has no exp_avg_sq, and its exp_avg is the momentum.
struct MuonParamState : public torch::optim::OptimizerCloneableParamState<MuonParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(torch::Tensor, exp_avg);
  TORCH_ARG(torch::Tensor, exp_avg_sq);
};

// Muon (Jordan et al., 2024) for matrices, AdamW for all other parameters. The update of a matrix p
// with gradient g is
//
//   m = momentum * m + g
//   u = orthogonalize(g + momentum * m)        (Nesterov momentum)
//   p = p - lr * weight_decay * p - lr * sqrt(max(1, rows / columns)) * u
//
// orthogonalize() makes all singular values approximately 1, by five Newton-Schulz iterations. It
// computes in bfloat16 for float32 parameters on a GPU, otherwise in the type of the parameter. A
// parameter with more than two dimensions, as of a convolution, is a matrix with size(0) rows.
//
// An update needs the complete matrix, even if each worker holds only shards of it: see
// orthogonalize_with().
//
// Like every libtorch optimizer, it holds the parameters and must be used from one thread.
class Muon : public torch::optim::Optimizer {
 public:
  explicit Muon(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                MuonOptions options = {});

  // Applies one step to all parameters that have a gradient. Returns the result of `closure`, if
  // one is given.
  torch::Tensor step(LossClosure closure = nullptr) override;

  // A function that receives the shards of matrices that have a gradient, and for each shard
  // g + momentum * m. It returns, in the same order and with the same sizes, the shards of the
  // orthogonal matrices, multiplied by sqrt(max(1, rows / columns)).
  using Orthogonalize = std::function<std::vector<torch::Tensor>(
      const std::vector<torch::Tensor>& pieces, std::vector<torch::Tensor> updates)>;

  // Declares that the parameters of this optimizer are shards. Each step() then calls
  // `orthogonalize` exactly once, even if no shard has a gradient, so that it can be a collective.
  // An empty function declares that the parameters are complete.
  void orthogonalize_with(Orthogonalize orthogonalize) {
    orthogonalize_ = std::move(orthogonalize);
  }

 protected:
  bool has_shards() const { return static_cast<bool>(orthogonalize_); }

 private:
  Orthogonalize orthogonalize_;
};

}  // namespace lockstep
