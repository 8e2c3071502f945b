// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/ema.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <torch/utils.h>

#include "common/base/log.h"
#include "lockstep/error.h"
#include "training/checkpoint/optimizer_value.h"

namespace lockstep::train {
namespace {

// Identity of the memory, not of the tensor object: strategies return new views of their flat
// buffers.
bool is_same_memory(const torch::Tensor& one, const torch::Tensor& other) {
  return one.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl() &&
         one.storage_offset() == other.storage_offset() && one.numel() == other.numel();
}

// The tensors that the optimizer updates. A parameter that several modules share occurs once. A
// partitioned strategy updates shards instead of the parameters, and the shards are averaged.
std::vector<TensorPiece> weights_of(const torch::nn::Module& model, const Strategy& strategy) {
  if (const auto pieces = strategy.updated()) {
    return *pieces;
  }
  std::vector<TensorPiece> weights;
  for (const auto& item : model.named_parameters()) {
    const bool is_known = std::any_of(weights.begin(), weights.end(), [&item](const auto& known) {
      return known.values.is_same(item.value());
    });
    if (!is_known) {
      weights.push_back({.name = item.key(),
                         .shape = item.value().sizes().vec(),
                         .offset = 0,
                         .values = item.value()});
    }
  }
  return weights;
}

std::string averaged(std::string_view name) {
  return fmt::format("{}{}", checkpoint::kEmaPrefix, name);
}

}  // namespace

Ema::Ema(torch::nn::Module& model, Strategy& strategy, double decay)
    : model_(model), strategy_(strategy), decay_(decay), weights_(weights_of(model, strategy)) {
  for (const TensorPiece& weight : weights_) {
    averages_.push_back(weight.values.detach().clone());
  }
}

// lerp_: average + (1 - d) * (weight - average), one kernel per tensor. The decay d grows with the
// number of updates t as in tf.train.ExponentialMovingAverage, so that the initial weights, which
// are the first average, are soon forgotten: 2/11 at the first update, 0.9 after 80.
void Ema::update() {
  torch::NoGradGuard no_grad;
  ++updates_;
  const auto t = static_cast<double>(updates_);
  const double decay = std::min(decay_, (1 + t) / (10 + t));
  for (size_t i = 0; i < weights_.size(); ++i) {
    averages_[i].lerp_(weights_[i].values.detach(), 1 - decay);
  }
}

std::vector<TensorPiece> Ema::model_pieces() const {
  std::optional<std::vector<TensorPiece>> held = strategy_.pieces();
  if (!held) {
    return as_pieces(checkpoint::kModelPrefix, collect_model(model_));
  }
  std::erase_if(*held, [](const TensorPiece& piece) {
    return !piece.name.starts_with(checkpoint::kModelPrefix);
  });
  return std::move(*held);
}

// Returns an undefined tensor for values without an average: buffers, and frozen parameters of a
// partitioned model.
torch::Tensor Ema::find_average(const torch::Tensor& values) const {
  for (size_t i = 0; i < weights_.size(); ++i) {
    const torch::Tensor& weight = weights_[i].values;
    if (is_same_memory(values, weight)) {
      return averages_[i];
    }
    // The worker updates a larger range than the piece that it saves.
    const int64_t begin = values.storage_offset() - weight.storage_offset();
    if (weight.dim() == 1 && values.dim() == 1 && values.is_alias_of(weight) && begin >= 0 &&
        begin + values.numel() <= weight.numel()) {
      return averages_[i].narrow(0, begin, values.numel());
    }
  }
  return {};
}

// Buffers and frozen parameters have no average; the model in the file gets their current values.
std::vector<TensorPiece> Ema::pieces() const {
  std::vector<TensorPiece> all = model_pieces();
  for (TensorPiece& piece : all) {
    piece.name = averaged(std::string_view(piece.name).substr(checkpoint::kModelPrefix.size()));
    if (const torch::Tensor average = find_average(piece.values); average.defined()) {
      piece.values = average;
    }
  }
  return all;
}

void Ema::restore(const PieceSource& source, int64_t updates) {
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : collect_model(model_)) {
    if (!source.has(averaged(name)) || source.shape(averaged(name)) != tensor.sizes().vec()) {
      throw Error(ExitCode::Usage, "cannot resume: the averaged weights belong to another model")
          .fact("missing", fmt::format("'{}'", name), "checkpoint");
    }
  }
  for (size_t i = 0; i < weights_.size(); ++i) {
    source.read(averaged(weights_[i].name), weights_[i].offset, averages_[i]);
  }
  updates_ = updates;
}

// publish() lets a partitioned strategy copy the shards to the parameters of the model, a
// collective.
Ema::Scope::Scope(const Ema& ema) : ema_(ema) {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < ema_.weights_.size(); ++i) {
    trained_.push_back(ema_.weights_[i].values.detach().clone());
    ema_.weights_[i].values.detach().copy_(ema_.averages_[i]);
  }
  try {
    ema_.strategy_.publish();
  } catch (...) {
    give_back();
    throw;
  }
}

Ema::Scope::~Scope() {
  try {
    give_back();
  } catch (const std::exception& fault) {
    log::warn("the averaged weights remain in the model: {}", fault.what());
  }
}

void Ema::Scope::end() {
  give_back();
  ema_.strategy_.publish();
}

void Ema::Scope::give_back() {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < trained_.size(); ++i) {
    ema_.weights_[i].values.detach().copy_(trained_[i]);
  }
  trained_.clear();
}

}  // namespace lockstep::train
