// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/apply_step.h"

#include <algorithm>
#include <cmath>
#include <torch/utils.h>
#include <unordered_set>

#include "lockstep/optimizer.h"
#include "training/optim/fused.h"
#include "training/optim/squares.h"

namespace lockstep::strategy {
namespace {

std::vector<torch::Tensor> defined_gradients(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) {
      gradients.push_back(parameter.grad());
    }
  }
  return gradients;
}

double norm_of(const std::vector<torch::Tensor>& gradients) {
  double squares = 0;
  for (const torch::Tensor& gradient : gradients) {
    squares += optim::sum_of_squares(gradient);
  }
  return std::sqrt(squares);
}

// Undefined unless the gradients are on a GPU, where the norm stays: reading it here would make the
// host wait for backward.
torch::Tensor late_norm_of(const std::vector<torch::Tensor>& gradients) {
  if (gradients.empty() || !gradients.front().is_cuda()) {
    return {};
  }
  const torch::NoGradGuard no_grad;
  torch::Tensor squares = optim::sum_of_squares_tensor(gradients.front());
  for (size_t i = 1; i < gradients.size(); ++i) {
    squares += optim::sum_of_squares_tensor(gradients[i]);
  }
  return squares.sqrt();
}

// The sum of a gradient takes one pass and is not finite if an element is not. The sum itself can
// overflow, so a bad sum is verified element by element.
bool are_finite(const std::vector<torch::Tensor>& gradients) {
  std::vector<torch::Tensor> sums;
  sums.reserve(gradients.size());
  for (const torch::Tensor& gradient : gradients) {
    sums.push_back(gradient.sum().to(torch::kFloat64));
  }
  if (sums.empty() || std::isfinite(torch::stack(sums).sum().item<double>())) {
    return true;
  }
  return std::all_of(gradients.begin(), gradients.end(), [](const torch::Tensor& gradient) {
    return gradient.isfinite().all().item<bool>();
  });
}

// Whether the optimizer updates exactly these parameters. Only then is the norm of its gradients
// the requested norm.
bool updates_just(torch::optim::Optimizer& optimizer,
                  const std::vector<torch::Tensor>& parameters) {
  std::unordered_set<const void*> updated;
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      updated.insert(parameter.unsafeGetTensorImpl());
    }
  }
  return updated.size() == parameters.size() &&
         std::all_of(parameters.begin(), parameters.end(), [&](const torch::Tensor& parameter) {
           return updated.contains(parameter.unsafeGetTensorImpl());
         });
}

}  // namespace

void drop_gradients(const std::vector<torch::Tensor>& parameters) {
  for (const torch::Tensor& parameter : parameters) {
    parameter.mutable_grad() = torch::Tensor();
  }
}

StepResult apply_step(torch::optim::Optimizer& optimizer,
                      const std::vector<torch::Tensor>& parameters,
                      const StepOptions& options) {
  StepResult result;
  auto* fused = dynamic_cast<optim::FusedOptimizer*>(&optimizer);
  const bool wants_norm = options.wants_norm || options.wants_late_norm;
  // The fused optimizer removes the loss scale and clips in its own kernel, which saves a pass over
  // the gradients. Its norm is that of its own parameters, hence updates_just(). check_finite needs
  // a decision by the host before the step and excludes it.
  if (fused != nullptr && !options.check_finite && fused->is_fused() &&
      ((options.clip_norm == 0 && !wants_norm) || updates_just(optimizer, parameters))) {
    fused->step_fused({.clip_norm = options.clip_norm,
                       .gradient_scale = 1 / options.loss_scale,
                       .wants_norm = wants_norm});
    if (options.wants_late_norm) {
      result.late_norm = fused->norm();
    }
    if (options.wants_norm) {
      result.norm = fused->norm().item<double>();
    }
    drop_gradients(parameters);
    return result;
  }
  {
    torch::NoGradGuard no_grad;
    const std::vector<torch::Tensor> gradients = defined_gradients(parameters);
    if (options.loss_scale != 1) {
      for (torch::Tensor gradient : gradients) {
        gradient.div_(options.loss_scale);
      }
    }
    result.applied = !options.check_finite || are_finite(gradients);
  }
  if (result.applied) {
    if (options.clip_norm > 0) {
      result.norm = clip_gradients(parameters, options.clip_norm);
    } else if (options.wants_norm) {
      result.norm = norm_of(defined_gradients(parameters));
    } else if (options.wants_late_norm) {
      result.late_norm = late_norm_of(defined_gradients(parameters));
    }
    optimizer.step();
  }
  drop_gradients(parameters);
  return result;
}

}  // namespace lockstep::strategy
