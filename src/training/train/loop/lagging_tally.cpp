// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/lagging_tally.h"

#include <cmath>
#include <torch/utils.h>
#include <utility>

namespace lockstep::train {

Tally LaggingTally::take(const Meter& lately,
                         const LossWatch& watch,
                         const torch::Tensor& norm,
                         bool all) {
  Tally tally;
  if (on_its_way_) {
    receive(*on_its_way_, tally);
    on_its_way_.reset();
  }
  if (lately.samples() == 0) {
    return tally;
  }
  Sent sent = send(lately, watch, norm);
  if (all || !sent.end) {
    receive(sent, tally);
  } else {
    on_its_way_ = std::move(sent);
  }
  return tally;
}

LaggingTally::Sent LaggingTally::send(const Meter& lately,
                                      const LossWatch& watch,
                                      const torch::Tensor& norm) {
  const torch::NoGradGuard no_grad;
  torch::Tensor values = lately.sums();
  if (const torch::Tensor losses = watch.losses(); losses.defined()) {
    values = torch::cat({values, losses.to(values.options())});
  }
  if (norm.defined()) {
    values = torch::cat({values, norm.to(values.options()).view(-1)});
  }
  Sent sent{.values = values,
            .has_norm = norm.defined(),
            .steps = watch.steps(),
            .samples = lately.samples(),
            .scored = lately.scored(),
            .end = std::nullopt};
  if (values.is_cuda()) {
    sent.values = torch::empty(values.sizes(), torch::dtype(torch::kFloat64).pinned_memory(true));
    sent.values.copy_(values, /*non_blocking=*/true);
    sent.end.emplace(record_event(values.device()));
  }
  return sent;
}

void LaggingTally::receive(const Sent& sent, Tally& tally) {
  if (sent.end) {
    wait_for(*sent.end);
  }
  // Layout of the values: [loss sum, correct, losses..., norm if has_norm].
  const auto* value = sent.values.data_ptr<double>();
  tally.loss_sum += value[0];
  tally.correct += value[1];
  tally.samples += static_cast<double>(sent.samples);
  tally.scored += static_cast<double>(sent.scored);
  for (size_t i = 0; i < sent.steps.size() && !tally.bad_loss; ++i) {
    if (!std::isfinite(value[2 + i])) {
      tally.bad_loss = BadLoss{.step = sent.steps[i], .value = value[2 + i]};
    }
  }
  if (sent.has_norm) {
    tally.gradient_norm = value[sent.values.numel() - 1];
  }
}

}  // namespace lockstep::train
