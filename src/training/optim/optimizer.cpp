// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizer.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/utils.h>
#include <unordered_set>

#include "common/base/check.h"
#include "common/base/text.h"
#include "lockstep/error.h"
#include "lockstep/lamb.h"
#include "lockstep/muon.h"
#include "training/optim/fused.h"
#include "training/optim/vector_adam.h"

namespace lockstep {
namespace {

[[noreturn]] void throw_unknown(std::string_view what,
                                std::string_view flag,
                                std::string_view name,
                                const std::vector<std::string>& names) {
  throw Error(ExitCode::Usage, fmt::format("unknown {} '{}'", what, name))
      .fact("requested", fmt::format("{} {}", flag, name), "command line")
      .fact("available", join(names, ", "))
      .hint(fmt::format("{} {}", flag, find_closest(name, names).value_or(names.front())));
}

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

template <typename Plain, typename Vectorised, typename Options>
std::unique_ptr<torch::optim::Optimizer> make_adam(const Groups& groups,
                                                   const OptimizerOptions& options) {
  const Options made = Options(options.lr)
                           .betas(std::make_tuple(options.beta1, options.beta2))
                           .eps(options.epsilon)
                           .weight_decay(options.weight_decay);
  if (options.vectorised) {
    return std::make_unique<Vectorised>(groups, made);
  }
  return std::make_unique<Plain>(groups, made);
}

// Module::parameters() lists a shared tensor once for each module; it is one parameter.
std::vector<torch::Tensor> without_repeats(std::vector<torch::Tensor> parameters) {
  std::unordered_set<const void*> seen;
  std::erase_if(parameters, [&seen](const torch::Tensor& parameter) {
    return !seen.insert(parameter.unsafeGetTensorImpl()).second;
  });
  return parameters;
}

// Groups without options of their own use those given here.
std::unique_ptr<torch::optim::Optimizer> make(const Groups& groups,
                                              const OptimizerOptions& options) {
  if (!options.vectorised && torch::cuda::is_available()) {
    if (auto fused = optim::make_fused(groups, options)) {
      return fused;
    }
  }
  if (options.name == "sgd") {
    return std::make_unique<torch::optim::SGD>(groups,
                                               torch::optim::SGDOptions(options.lr)
                                                   .momentum(options.momentum)
                                                   .dampening(options.dampening)
                                                   .nesterov(options.nesterov)
                                                   .weight_decay(options.weight_decay));
  }
  if (options.name == "adam") {
    return make_adam<torch::optim::Adam, optim::VectorAdam, torch::optim::AdamOptions>(groups,
                                                                                       options);
  }
  if (options.name == "adamw") {
    return make_adam<torch::optim::AdamW, optim::VectorAdamW, torch::optim::AdamWOptions>(groups,
                                                                                          options);
  }
  if (options.name == "lamb") {
    return std::make_unique<Lamb>(groups,
                                  LambOptions(options.lr)
                                      .betas(std::make_tuple(options.beta1, options.beta2))
                                      .eps(options.epsilon)
                                      .weight_decay(options.weight_decay)
                                      .max_coeff(options.max_coeff)
                                      .min_coeff(options.min_coeff)
                                      .bias_correction(options.bias_correction)
                                      .eps_inside_sqrt(options.eps_inside_sqrt));
  }
  if (options.name == "adagrad") {
    return std::make_unique<torch::optim::Adagrad>(
        groups,
        torch::optim::AdagradOptions(options.lr)
            .lr_decay(options.lr_decay)
            .weight_decay(options.weight_decay)
            .initial_accumulator_value(options.initial_accumulator_value)
            .eps(options.epsilon));
  }
  throw_unknown("optimizer",
                "--optimizer",
                options.name,
                {"sgd", "adam", "adamw", "lamb", "adagrad", "muon"});
}

// The matrices, then the other parameters in the order of `others`, which AdamW updates.
std::unique_ptr<torch::optim::Optimizer> make_muon(std::vector<std::vector<torch::Tensor>> others,
                                                   const OptimizerOptions& options) {
  std::unordered_set<const void*> chosen;
  for (const torch::Tensor& matrix : options.matrices) {
    if (matrix.dim() < 2) {
      throw Error(ExitCode::Usage,
                  "cannot update a parameter with less than two dimensions by muon")
          .fact("dimensions", std::to_string(matrix.dim()))
          .hint("use hidden_matrices(model) for OptimizerOptions::matrices");
    }
    chosen.insert(matrix.unsafeGetTensorImpl());
  }
  const MuonOptions of_matrices = MuonOptions(options.lr).weight_decay(options.weight_decay);
  const MuonOptions of_others = MuonOptions(options.lr * options.adamw_lr_factor)
                                    .weight_decay(options.weight_decay)
                                    .is_matrix(false)
                                    .betas(std::make_tuple(options.beta1, options.beta2))
                                    .eps(options.epsilon);
  std::vector<torch::Tensor> matrices;
  for (std::vector<torch::Tensor>& group : others) {
    std::erase_if(group, [&](const torch::Tensor& parameter) {
      const bool is_matrix = chosen.contains(parameter.unsafeGetTensorImpl());
      if (is_matrix) {
        matrices.push_back(parameter);
      }
      return is_matrix;
    });
  }
  Groups groups;
  groups.emplace_back(std::move(matrices), std::make_unique<MuonOptions>(of_matrices));
  for (std::vector<torch::Tensor>& group : others) {
    groups.emplace_back(std::move(group), std::make_unique<MuonOptions>(of_others));
  }
  if (torch::cuda::is_available()) {
    if (auto fused = optim::make_fused_muon(groups, of_matrices)) {
      return fused;
    }
  }
  return std::make_unique<Muon>(groups, of_matrices);
}

// Sets the weight decay to 0 if `options` are of this kind; returns whether they are.
template <typename Kind>
bool drop_decay(torch::optim::OptimizerOptions& options) {
  auto* const own = dynamic_cast<Kind*>(&options);
  if (own != nullptr) {
    own->weight_decay(0);
  }
  return own != nullptr;
}

void drop_weight_decay(torch::optim::OptimizerParamGroup& group) {
  torch::optim::OptimizerOptions& options = group.options();
  const bool is_known = drop_decay<torch::optim::SGDOptions>(options) ||
                        drop_decay<torch::optim::AdamOptions>(options) ||
                        drop_decay<torch::optim::AdamWOptions>(options) ||
                        drop_decay<LambOptions>(options) || drop_decay<MuonOptions>(options) ||
                        drop_decay<torch::optim::AdagradOptions>(options);
  LOCKSTEP_CHECK(is_known);
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<torch::Tensor> parameters,
                                                        const OptimizerOptions& options) {
  parameters = without_repeats(std::move(parameters));
  if (options.name == "muon") {
    if (options.matrices.empty()) {
      throw Error(ExitCode::Usage,
                  "cannot use muon: the program does not specify which parameters are matrices")
          .fact("requested", "--optimizer muon", "command line, or the program")
          .hint(
              "make_optimizer(model, ...), or OptimizerOptions::matrices = hidden_matrices(model)");
    }
    return make_muon({std::move(parameters)}, options);
  }
  return make({torch::optim::OptimizerParamGroup(std::move(parameters))}, options);
}

// Weight decay is for matrices and convolutions only, as usual. Biases and weights of norms have
// one dimension.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(torch::nn::Module& model,
                                                        const OptimizerOptions& options) {
  std::vector<torch::Tensor> decayed = without_repeats(model.parameters());
  const auto middle =
      std::stable_partition(decayed.begin(), decayed.end(), [](const torch::Tensor& parameter) {
        return parameter.dim() >= 2;
      });
  std::vector<torch::Tensor> plain(middle, decayed.end());
  decayed.erase(middle, decayed.end());
  // Two groups even without weight decay, so that a checkpoint fits with any value of
  // --weight-decay.
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (options.name == "muon") {
    OptimizerOptions muon = options;
    muon.matrices = options.matrices.empty() ? hidden_matrices(model) : options.matrices;
    optimizer = make_muon({std::move(decayed), std::move(plain)}, muon);
  } else {
    optimizer = make({torch::optim::OptimizerParamGroup(std::move(decayed)),
                      torch::optim::OptimizerParamGroup(std::move(plain))},
                     options);
  }
  drop_weight_decay(optimizer->param_groups().back());
  return optimizer;
}

double clip_gradients(const std::vector<torch::Tensor>& parameters, double max_norm) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> norms;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) {
      norms.push_back(parameter.grad().norm());
    }
  }
  if (norms.empty()) {
    return 0;
  }
  const auto norm = torch::stack(norms).norm().item<double>();
  // As torch.nn.utils.clip_grad_norm_, which also adds 1e-6 to avoid a division by zero.
  const double factor = max_norm / (norm + 1e-6);
  if (factor < 1) {
    for (const torch::Tensor& parameter : parameters) {
      if (parameter.grad().defined()) {
        parameter.grad().mul_(factor);
      }
    }
  }
  return norm;
}

std::vector<double> learning_rates(torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (auto& group : optimizer.param_groups()) {
    rates.push_back(group.options().get_lr());
  }
  return rates;
}

void set_learning_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates) {
  LOCKSTEP_CHECK(rates.size() == optimizer.param_groups().size());
  for (size_t i = 0; i < rates.size(); ++i) {
    optimizer.param_groups()[i].options().set_lr(rates[i]);
  }
}

// Optimizers without betas (SGD, Adagrad) are left as they are.
void set_betas(torch::optim::Optimizer& optimizer, double beta1, double beta2) {
  const auto both = std::make_tuple(beta1, beta2);
  for (auto& group : optimizer.param_groups()) {
    torch::optim::OptimizerOptions& options = group.options();
    if (auto* adam = dynamic_cast<torch::optim::AdamOptions*>(&options)) {
      adam->betas(both);
    } else if (auto* adamw = dynamic_cast<torch::optim::AdamWOptions*>(&options)) {
      adamw->betas(both);
    } else if (auto* lamb = dynamic_cast<LambOptions*>(&options)) {
      lamb->betas(both);
    } else if (auto* muon = dynamic_cast<MuonOptions*>(&options)) {
      muon->betas(both);  // of the groups that AdamW updates; the others ignore them
    }
  }
}

LrScaling parse_lr_scaling(std::string_view name) {
  if (name == "none") {
    return LrScaling::None;
  }
  if (name == "linear") {
    return LrScaling::Linear;
  }
  if (name == "sqrt") {
    return LrScaling::Sqrt;
  }
  throw_unknown("learning-rate scaling", "--scale-lr", name, {"none", "linear", "sqrt"});
}

// Linear: Goyal et al. 2017 ("Accurate, Large Minibatch SGD"), for SGD. Square root: Krizhevsky
// 2014, usual for Adam.
double lr_factor(LrScaling scaling, int workers) {
  switch (scaling) {
    case LrScaling::Linear:
      return workers;
    case LrScaling::Sqrt:
      return std::sqrt(workers);
    case LrScaling::None:
      break;
  }
  return 1;
}

}  // namespace lockstep
