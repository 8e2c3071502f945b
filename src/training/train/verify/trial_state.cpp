// SPDX-License-Identifier: Apache-2.0
#include "training/train/verify/trial_state.h"

#include <algorithm>
#include <torch/nn.h>
#include <torch/utils.h>
#include <unordered_set>

#include "lockstep/optimizer.h"
#include "training/optim/adagrad.h"

namespace lockstep::train {
namespace {

template <typename... Kinds>
bool is_any(torch::nn::Module& module) {
  return ((module.as<Kinds>() != nullptr) || ...);
}

bool is_dropout(torch::nn::Module& module) {
  return is_any<torch::nn::Dropout,
                torch::nn::Dropout2d,
                torch::nn::Dropout3d,
                torch::nn::AlphaDropout,
                torch::nn::FeatureAlphaDropout>(module);
}

bool is_batch_norm(torch::nn::Module& module) {
  return is_any<torch::nn::BatchNorm1d, torch::nn::BatchNorm2d, torch::nn::BatchNorm3d>(module);
}

}  // namespace

// The state of the optimizer is moved away, not copied: the trials start with an empty one.
TrialState::TrialState(torch::nn::Module& model, torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer), rates_(learning_rates(optimizer)) {
  std::unordered_set<const void*> seen;
  const auto keep = [&](const torch::Tensor& tensor, bool is_parameter) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) {
      saved_.push_back({tensor, tensor.detach().clone(), is_parameter});
    }
  };
  for (const torch::Tensor& parameter : model.parameters()) {
    keep(parameter, true);
  }
  for (const torch::Tensor& buffer : model.buffers()) {
    keep(buffer, false);
  }
  optimizer_state_ = std::move(optimizer.state());
  optimizer.state().clear();
}

TrialState::~TrialState() {
  put_back(std::nullopt, 0);
  optimizer_.state() = std::move(optimizer_state_);
}

// Learning rates are restored as well. Adagrad
// creates its state at construction and not in the first step, so that it must be created again.
void TrialState::begin(torch::ScalarType type, double offset) {
  put_back(type, offset);
  optimizer_.state().clear();
  optim::begin_adagrad(optimizer_);
}

// set_data() replaces the values of a tensor, also by values of another type, and keeps the tensor
// object to which model, optimizer and this object refer. If the type stays the same, the values
// are copied in place instead, because the tensor may be a view.
void TrialState::put_back(std::optional<torch::ScalarType> type, double offset) {
  const torch::NoGradGuard no_grad;
  for (Saved& each : saved_) {
    each.tensor.mutable_grad() = torch::Tensor();
    torch::Tensor value = each.value;
    if (type && value.is_floating_point()) {
      value = value.to(*type);
    }
    if (offset != 0 && each.is_parameter) {
      value = value + offset;
    }
    if (each.tensor.scalar_type() == value.scalar_type()) {
      each.tensor.copy_(value);
    } else {
      each.tensor.set_data(value.clone());
    }
  }
  set_learning_rates(optimizer_, rates_);
}

// Random masks depend on the order of samples within a worker, so that results could not be
// compared.
QuietDropout::QuietDropout(torch::nn::Module& model) {
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (is_dropout(*item.value()) && item.value()->is_training()) {
      item.value()->eval();
      modules_.push_back(item.value());
      names_.push_back(item.key());
    }
  }
}

QuietDropout::~QuietDropout() {
  for (const auto& module : modules_) {
    module->train();
  }
}

bool has_batch_norm(const torch::nn::Module& model) {
  const auto modules = model.modules(/*include_self=*/false);
  return std::any_of(
      modules.begin(), modules.end(), [](const auto& module) { return is_batch_norm(*module); });
}

std::vector<Moved> moved_tensors(const torch::nn::Module& model) {
  std::vector<Moved> result;
  std::unordered_set<const void*> seen;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor, bool moves) {
    if (moves && tensor.numel() > 0 && seen.insert(tensor.unsafeGetTensorImpl()).second) {
      result.push_back({name, tensor});
    }
  };
  for (const auto& item : model.named_parameters()) {
    add(item.key(), item.value(), item.value().requires_grad());
  }
  for (const auto& item : model.named_buffers()) {
    add(item.key(), item.value(), item.value().is_floating_point());
  }
  return result;
}

}  // namespace lockstep::train
