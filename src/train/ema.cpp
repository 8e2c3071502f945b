// SPDX-License-Identifier: Apache-2.0
#include "train/ema.h"

#include <algorithm>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::train {

Ema::Ema(torch::nn::Module& model, double decay)
    : model_(model), decay_(decay), parameters_(model.parameters()) {
  for (const torch::Tensor& parameter : parameters_) {
    averages_.push_back(parameter.detach().clone());
  }
}

void Ema::update() {
  torch::NoGradGuard no_grad;
  ++updates_;
  const auto t = static_cast<double>(updates_);
  const double decay = std::min(decay_, (1 + t) / (10 + t));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    averages_[i].lerp_(parameters_[i].detach(), 1 - decay);
  }
}

NamedTensors Ema::tensors() const {
  NamedTensors tensors = collect_model(model_);
  for (auto& [name, tensor] : tensors) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (tensor.is_same(parameters_[i])) {
        tensor = averages_[i];
        break;
      }
    }
  }
  return tensors;
}

void Ema::restore(const NamedTensors& saved, int64_t updates) {
  torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : tensors()) {
    const auto found = std::find_if(
        saved.begin(), saved.end(), [&key = name](const auto& item) { return item.first == key; });
    if (found == saved.end() || found->second.sizes() != tensor.sizes()) {
      throw Error(ExitCode::Usage, "cannot resume: the averaged weights are of another model")
          .fact("missing", fmt::format("'{}'", name), "checkpoint");
    }
    const bool is_average =
        std::any_of(averages_.begin(), averages_.end(), [&each = tensor](const auto& average) {
          return average.is_same(each);
        });
    if (is_average) {
      tensor.copy_(found->second);
    }
  }
  updates_ = updates;
}

Ema::Scope::Scope(const Ema& ema) : ema_(ema) {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < ema_.parameters_.size(); ++i) {
    trained_.push_back(ema_.parameters_[i].detach().clone());
    ema_.parameters_[i].detach().copy_(ema_.averages_[i]);
  }
}

Ema::Scope::~Scope() {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < trained_.size(); ++i) {
    ema_.parameters_[i].detach().copy_(trained_[i]);
  }
}

}  // namespace lockstep::train
