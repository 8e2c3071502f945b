// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lamb.h"

#include <cmath>
#include <torch/utils.h>

#include "training/optim/keep_options.h"
#include "training/optim/state_key.h"

namespace lockstep {
namespace {

// LAMB (You et al. 2020). For each parameter w with gradient g:
//
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   u = m / (sqrt(v) + eps) + weight_decay * w
//   w = w - lr * correction * clamp(|w| / |u|, min_coeff, max_coeff) * u
//
// The trust ratio |w| / |u| needs the norms of the whole parameter. With ZeRO a worker has only a
// piece of it; then add_up_ adds the squares of all pieces over all workers.

LambParamState& state_of(const torch::Tensor& parameter, optim::StateMap& states) {
  auto& slot = states[optim::state_key(parameter)];
  if (slot == nullptr) {
    auto fresh = std::make_unique<LambParamState>();
    fresh->exp_avg(torch::zeros_like(parameter));
    fresh->exp_avg_sq(torch::zeros_like(parameter));
    slot = std::move(fresh);
  }
  return dynamic_cast<LambParamState&>(*slot);
}

// One parameter or piece with a gradient.
struct Move {
  torch::Tensor parameter;
  LambParamState& state;
  const LambOptions& options;
};

void take_in_gradient(const Move& move) {
  const auto [beta1, beta2] = move.options.betas();
  const torch::Tensor& gradient = move.parameter.grad();
  move.state.step(move.state.step() + 1);
  move.state.exp_avg().mul_(beta1).add_(gradient, 1 - beta1);
  move.state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
}

torch::Tensor change_of(const Move& move) {
  const torch::Tensor root = move.options.eps_inside_sqrt()
                                 ? (move.state.exp_avg_sq() + move.options.eps()).sqrt_()
                                 : move.state.exp_avg_sq().sqrt().add_(move.options.eps());
  return (move.state.exp_avg() / root).add_(move.parameter, move.options.weight_decay());
}

void apply(const Move& move,
           torch::Tensor change,
           const torch::Tensor& length,
           const torch::Tensor& change_length) {
  // Computed on the device, to avoid a synchronization with the GPU.
  const torch::Tensor ratio = torch::where(
      (length != 0).logical_and(change_length != 0),
      (length / change_length).clamp(move.options.min_coeff(), move.options.max_coeff()),
      torch::ones_like(length));
  const auto [beta1, beta2] = move.options.betas();
  const auto steps = static_cast<double>(move.state.step());
  // As in DeepSpeed, both bias corrections are one factor of the learning rate.
  const double correction = move.options.bias_correction() ? std::sqrt(1 - std::pow(beta2, steps)) /
                                                                 (1 - std::pow(beta1, steps))
                                                           : 1;
  torch::Tensor(move.parameter).sub_(change.mul_(ratio), move.options.lr() * correction);
}

void update_whole(const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    take_in_gradient(move);
    torch::Tensor change = change_of(move);
    const torch::Tensor change_length = change.norm();
    apply(move, std::move(change), move.parameter.norm(), change_length);
  }
}

// The update is computed twice instead of being stored for all pieces.
void update_pieces(const std::vector<Move>& moves, const Lamb::AddUp& add_up) {
  std::vector<torch::Tensor> pieces;
  torch::Tensor squares =
      torch::zeros({static_cast<int64_t>(moves.size()), 2}, torch::dtype(torch::kFloat64));
  for (const Move& move : moves) {
    take_in_gradient(move);
    const auto row = static_cast<int64_t>(pieces.size());
    // The squares of norms, not the norms, can be added over pieces.
    squares[row][0] = move.parameter.norm().to(torch::kFloat64).square();
    squares[row][1] = change_of(move).norm().to(torch::kFloat64).square();
    pieces.push_back(move.parameter);
  }
  const torch::Tensor lengths = add_up(pieces, squares).sqrt();
  for (size_t i = 0; i < moves.size(); ++i) {
    const torch::Tensor row = lengths[static_cast<int64_t>(i)].to(moves[i].parameter.options());
    apply(moves[i], change_of(moves[i]), row[0], row[1]);
  }
}

}  // namespace

Lamb::Lamb(const std::vector<torch::optim::OptimizerParamGroup>& groups, LambOptions options)
    : Optimizer(groups, std::make_unique<LambOptions>(std::move(options))) {
  optim::keep_options(*this, groups);
}

torch::Tensor Lamb::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode grad(true);
    loss = closure();
  }
  std::vector<Move> moves;
  for (auto& group : param_groups_) {
    const auto& options = dynamic_cast<const LambOptions&>(group.options());
    for (const torch::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) {
        moves.push_back({parameter, state_of(parameter, state_), options});
      }
    }
  }
  if (add_up_) {
    update_pieces(moves, add_up_);
  } else {
    update_whole(moves);
  }
  return loss;
}

}  // namespace lockstep
