// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/optim.h>
#include <torch/types.h>
#include <tuple>
#include <utility>
#include <vector>

// LAMB, an Adam whose step is scaled for each parameter, for training with large batches.
//
//   Lamb lamb(model.parameters(), LambOptions(1e-3).weight_decay(0.01));
//
// Session::make_optimizer() creates it for {.name = "lamb"} and for --optimizer lamb.
namespace lockstep {

// Options of Lamb, with the names and defaults of DeepSpeed's FusedLamb.
struct LambOptions : public torch::optim::OptimizerCloneableOptions<LambOptions> {
  using Betas = std::tuple<double, double>;

  // Implicit, like the options of libtorch's optimizers: Lamb(parameters, 1e-3).
  LambOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT(google-explicit-constructor)

  TORCH_ARG(double, lr) = 1e-3;
  // Decay of the two moments of the gradient.
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  // Added to the denominator, so that it is not zero.
  TORCH_ARG(double, eps) = 1e-8;
  // Decoupled from the moments: added to the update, not to the gradient.
  TORCH_ARG(double, weight_decay) = 0;
  // Maximum and minimum of the trust ratio.
  TORCH_ARG(double, max_coeff) = 10;
  TORCH_ARG(double, min_coeff) = 0.01;
  // Compensates for the moments' start at zero: c in the formula of Lamb.
  TORCH_ARG(bool, bias_correction) = true;
  // Whether the denominator is sqrt(v + eps) or sqrt(v) + eps.
  TORCH_ARG(bool, eps_inside_sqrt) = false;

 public:
  double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

// The state of one parameter: number of steps and the two moments of its gradient.
struct LambParamState : public torch::optim::OptimizerCloneableParamState<LambParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(torch::Tensor, exp_avg);
  TORCH_ARG(torch::Tensor, exp_avg_sq);
};

// LAMB (You et al., 2020) as DeepSpeed's FusedLamb computes it. The update of each parameter is
//
//   u = exp_avg / denominator + weight_decay * p        (Adam's update with weight decay)
//   r = clamp(norm(p) / norm(u), min_coeff, max_coeff)  (the trust ratio; 1 if a norm is 0)
//   p = p - lr * c * r * u
//
// where c = sqrt(1 - beta2^t) / (1 - beta1^t) with bias_correction, and 1 without it.
//
// The norms are those of entire parameters, even if each worker holds only shards of them: see
// add_up_with().
//
// Like every libtorch optimizer, it holds the parameters and must be used from one thread.
class Lamb : public torch::optim::Optimizer {
 public:
  explicit Lamb(std::vector<torch::Tensor> parameters, LambOptions options = {})
      : Lamb({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::move(options)) {}
  explicit Lamb(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                LambOptions options = {});

  // Applies one step to all parameters that have a gradient. Returns the result of `closure`, if
  // one is given.
  torch::Tensor step(LossClosure closure = nullptr) override;

  // A function that receives the squared norms of the values and of the update of each shard, one
  // row per shard, in float64 on the CPU. It returns, in the same layout, the sums over all shards
  // of the same parameter on all workers.
  using AddUp = std::function<torch::Tensor(const std::vector<torch::Tensor>& pieces,
                                            const torch::Tensor& squares)>;

  // Declares that the parameters of this optimizer are shards. Each step() then calls `add_up`
  // exactly once, even if no shard has a gradient, so that `add_up` can be a collective. An empty
  // function declares that the parameters are complete.
  void add_up_with(AddUp add_up) { add_up_ = std::move(add_up); }

 private:
  AddUp add_up_;
};

}  // namespace lockstep
