// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/torch.h>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

struct LambOptions : public torch::optim::OptimizerCloneableOptions<LambOptions> {
  using Betas = std::tuple<double, double>;

  // Implicit as libtorch's own: Lamb(parameters, 1e-3).
  LambOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT(google-explicit-constructor)

  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  // The trust ratio stays between these.
  TORCH_ARG(double, max_coeff) = 10;
  TORCH_ARG(double, min_coeff) = 0.01;
  TORCH_ARG(bool, bias_correction) = true;
  TORCH_ARG(bool, eps_inside_sqrt) = false;

 public:
  double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

struct LambParamState : public torch::optim::OptimizerCloneableParamState<LambParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(torch::Tensor, exp_avg);
  TORCH_ARG(torch::Tensor, exp_avg_sq);
};

// LAMB as DeepSpeed's FusedLamb computes it: Adam's update with the weight decay added, times the
// ratio of the norms of parameter and update, which is kept within bounds. The norms are those of
// whole parameters, also where each worker has only pieces of them: see add_up_with.
class Lamb : public torch::optim::Optimizer {
 public:
  explicit Lamb(std::vector<torch::Tensor> parameters, LambOptions options = {})
      : Lamb({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::move(options)) {}
  explicit Lamb(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                LambOptions options = {})
      : Optimizer(groups, std::make_unique<LambOptions>(std::move(options))) {}

  torch::Tensor step(LossClosure closure = nullptr) override;

  // Of each piece the squared norms of its values and of its update, one row each, on the CPU in
  // float64; gives back the sums over all pieces of the same parameter, wherever they are.
  using AddUp = std::function<torch::Tensor(const std::vector<torch::Tensor>& pieces,
                                            const torch::Tensor& squares)>;
  // From now on the parameters of this optimizer are pieces; step() calls `add_up` once, also where
  // no piece has a gradient. An empty one: they are whole again.
  void add_up_with(AddUp add_up) { add_up_ = std::move(add_up); }

 private:
  AddUp add_up_;
};

}  // namespace lockstep
