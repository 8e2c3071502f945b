// SPDX-License-Identifier: Apache-2.0
#include "lockstep/muon.h"

#include <algorithm>
#include <cmath>
#include <torch/nn.h>
#include <torch/utils.h>
#include <unordered_set>

#include "lockstep/optimizer.h"
#include "training/optim/keep_options.h"
#include "training/optim/muon_step.h"

namespace lockstep {
namespace {

// A matrix, or a piece of one, with a gradient.
struct MatrixMove {
  torch::Tensor parameter;
  MuonParamState& state;
  const MuonOptions& options;
};

// Nesterov momentum.
torch::Tensor nesterov_update(const MatrixMove& move) {
  const torch::Tensor& gradient = move.parameter.grad();
  const double momentum = move.options.momentum();
  move.state.exp_avg().mul_(momentum).add_(gradient);
  return gradient.add(move.state.exp_avg(), momentum);
}

void apply_update(const MatrixMove& move, const torch::Tensor& update, double scale) {
  const double lr = move.options.lr();
  torch::Tensor parameter = move.parameter;
  parameter.mul_(1 - lr * move.options.weight_decay());
  parameter.sub_(update.reshape(parameter.sizes()), lr * scale);
}

void update_matrix(const MatrixMove& move) {
  const torch::Tensor update = optim::orthogonalize(nesterov_update(move).flatten(1));
  apply_update(move, update, optim::muon_scale(update.size(0), update.size(1)));
}

void update_pieces(const std::vector<MatrixMove>& moves, const Muon::Orthogonalize& orthogonalize) {
  std::vector<torch::Tensor> pieces;
  std::vector<torch::Tensor> updates;
  for (const MatrixMove& move : moves) {
    pieces.push_back(move.parameter);
    updates.push_back(nesterov_update(move));
  }
  updates = orthogonalize(pieces, std::move(updates));
  for (size_t i = 0; i < moves.size(); ++i) {
    apply_update(moves[i], updates[i], 1);
  }
}

void update_other(torch::Tensor parameter, MuonParamState& state, const MuonOptions& options) {
  const auto [beta1, beta2] = options.betas();
  const torch::Tensor& gradient = parameter.grad();
  const auto steps = static_cast<double>(state.step());
  state.exp_avg().mul_(beta1).add_(gradient, 1 - beta1);
  state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const torch::Tensor root =
      (state.exp_avg_sq().sqrt() / std::sqrt(1 - std::pow(beta2, steps))).add_(options.eps());
  parameter.mul_(1 - options.lr() * options.weight_decay());
  parameter.addcdiv_(state.exp_avg(), root, -options.lr() / (1 - std::pow(beta1, steps)));
}

}  // namespace

MuonParamState& optim::muon_state(const torch::Tensor& parameter,
                                  bool is_matrix,
                                  StateMap& states) {
  auto& slot = states[state_key(parameter)];
  if (slot == nullptr) {
    auto fresh = std::make_unique<MuonParamState>();
    fresh->exp_avg(torch::zeros_like(parameter));
    if (!is_matrix) {
      fresh->exp_avg_sq(torch::zeros_like(parameter));
    }
    slot = std::move(fresh);
  }
  return dynamic_cast<MuonParamState&>(*slot);
}

// X = U S V^T becomes about U V^T. With P = X X^T, one iteration is X <- (a I + b P + c P^2) X,
// which applies a x + b x^3 + c x^5 to every singular value x. The Frobenius norm is at least the
// largest of them, so all begin between 0 and 1. The coefficients have the steepest slope at 0 and
// do not converge: the values end between about 0.7 and 1.3, which is close enough for an update.
torch::Tensor optim::orthogonalize(const torch::Tensor& matrix) {
  const bool is_narrow = matrix.is_cuda() && matrix.scalar_type() != torch::kFloat64;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  torch::Tensor x = is_narrow ? matrix.to(torch::kBFloat16) : matrix;
  x = is_tall ? x.t() : x;  // products of the smaller side are cheaper
  x = x / (x.norm() + NewtonSchulz::kNormEpsilon);
  for (int i = 0; i < NewtonSchulz::kIterations; ++i) {
    const torch::Tensor square = x.mm(x.t());
    const torch::Tensor polynomial =
        torch::addmm(square, square, square, NewtonSchulz::kB, NewtonSchulz::kC);
    x = torch::addmm(x, polynomial, x, NewtonSchulz::kA, 1);
  }
  return (is_tall ? x.t() : x).to(matrix.scalar_type());
}

double optim::muon_scale(int64_t rows, int64_t columns) {
  return std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
}

Muon::Muon(const std::vector<torch::optim::OptimizerParamGroup>& groups, MuonOptions options)
    : Optimizer(groups, std::make_unique<MuonOptions>(std::move(options))) {
  optim::keep_options(*this, groups);
}

torch::Tensor Muon::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode grad(true);
    loss = closure();
  }
  std::vector<MatrixMove> matrices;
  for (auto& group : param_groups_) {
    const auto& options = dynamic_cast<const MuonOptions&>(group.options());
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) {
        continue;
      }
      MuonParamState& state = optim::muon_state(parameter, options.is_matrix(), state_);
      state.step(state.step() + 1);
      if (options.is_matrix()) {
        matrices.push_back({parameter, state, options});
      } else {
        update_other(parameter, state, options);
      }
    }
  }
  if (orthogonalize_) {
    update_pieces(matrices, orthogonalize_);
  } else {
    for (const MatrixMove& move : matrices) {
      update_matrix(move);
    }
  }
  return loss;
}

// Embeddings and the last layer are excluded, as the authors recommend. The last layer is the last
// module with parameters of its own, in the order of registration.
std::vector<torch::Tensor> hidden_matrices(torch::nn::Module& model) {
  std::unordered_set<const void*> excluded;
  const auto exclude = [&excluded](const std::vector<torch::Tensor>& parameters) {
    for (const torch::Tensor& parameter : parameters) {
      excluded.insert(parameter.unsafeGetTensorImpl());
    }
  };
  std::vector<torch::Tensor> last = model.parameters(/*recurse=*/false);
  for (const auto& module : model.modules(/*include_self=*/false)) {
    std::vector<torch::Tensor> own = module->parameters(/*recurse=*/false);
    if (module->as<torch::nn::Embedding>() != nullptr) {
      exclude(own);
    }
    if (!own.empty()) {
      last = std::move(own);
    }
  }
  exclude(last);
  std::vector<torch::Tensor> matrices;
  for (const torch::Tensor& parameter : model.parameters()) {
    // insert() also skips the repetitions of a shared parameter.
    if (parameter.dim() >= 2 && excluded.insert(parameter.unsafeGetTensorImpl()).second) {
      matrices.push_back(parameter);
    }
  }
  return matrices;
}

}  // namespace lockstep
