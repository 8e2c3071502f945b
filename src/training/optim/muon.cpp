// SPDX-License-Identifier: Apache-2.0
#include "lockstep/muon.h"

#include <algorithm>
#include <cmath>
#include <torch/nn.h>
#include <torch/utils.h>
#include <unordered_set>

#include "lockstep/optimizer.h"
#include "training/optim/muon_step.h"

namespace lockstep {
namespace {

using optim::NewtonSchulz;

torch::Tensor orthogonalize(const torch::Tensor& matrix) {
  const bool is_narrow = matrix.is_cuda() && matrix.scalar_type() == torch::kFloat32;
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

void update_matrix(torch::Tensor parameter, MuonParamState& state, const MuonOptions& options) {
  const torch::Tensor& gradient = parameter.grad();
  state.exp_avg().mul_(options.momentum()).add_(gradient);
  const torch::Tensor update =
      orthogonalize(gradient.add(state.exp_avg(), options.momentum()).flatten(1));
  parameter.mul_(1 - options.lr() * options.weight_decay());
  parameter.sub_(update.reshape(parameter.sizes()),
                 options.lr() * optim::muon_scale(update.size(0), update.size(1)));
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

double optim::muon_scale(int64_t rows, int64_t columns) {
  return std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
}

torch::Tensor Muon::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode grad(true);
    loss = closure();
  }
  for (auto& group : param_groups_) {
    const auto& options = dynamic_cast<const MuonOptions&>(group.options());
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) {
        continue;
      }
      MuonParamState& state = optim::muon_state(parameter, options.is_matrix(), state_);
      state.step(state.step() + 1);
      if (options.is_matrix()) {
        update_matrix(parameter, state, options);
      } else {
        update_other(parameter, state, options);
      }
    }
  }
  return loss;
}

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
