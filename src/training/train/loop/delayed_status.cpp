// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/delayed_status.h"

#include <cmath>
#include <torch/utils.h>
#include <utility>

namespace lockstep::train {

// Two exchanges overlap:
//
//   exchange k      send(k) starts a copy     reports the values of exchange k-1
//   exchange k+1    receive(k): the copy has long finished, the wait returns at once
//
// At the end (`all`) nothing may remain in transit, and on a CPU there is no copy: the values are
// then reported at once.
WorkerStatus DelayedStatus::take(const Meter& recent,
                                 const LossWatch& watch,
                                 const torch::Tensor& norm,
                                 bool all) {
  WorkerStatus status;
  if (in_transit_) {
    receive(*in_transit_, status);
    in_transit_.reset();
  }
  if (recent.samples() == 0) {
    return status;
  }
  Sent sent = send(recent, watch, norm);
  if (all || !sent.end) {
    receive(sent, status);
  } else {
    in_transit_ = std::move(sent);
  }
  return status;
}

// All values are joined into one tensor: one copy instead of many small ones. Pinned memory is
// needed for an asynchronous copy; it is kept alive by Sent until it was received.
DelayedStatus::Sent DelayedStatus::send(const Meter& recent,
                                        const LossWatch& watch,
                                        const torch::Tensor& norm) {
  const torch::NoGradGuard no_grad;
  torch::Tensor values = recent.sums();
  if (const torch::Tensor losses = watch.losses(); losses.defined()) {
    values = torch::cat({values, losses.to(values.options())});
  }
  if (norm.defined()) {
    values = torch::cat({values, norm.to(values.options()).view(-1)});
  }
  Sent sent{.values = values,
            .has_norm = norm.defined(),
            .steps = watch.steps(),
            .samples = recent.samples(),
            .scored = recent.scored(),
            .end = std::nullopt};
  if (values.is_cuda()) {
    sent.values = torch::empty(values.sizes(), torch::dtype(torch::kFloat64).pinned_memory(true));
    sent.values.copy_(values, /*non_blocking=*/true);
    sent.end.emplace(record_event(values.device()));
  }
  return sent;
}

void DelayedStatus::receive(const Sent& sent, WorkerStatus& status) {
  if (sent.end) {
    wait_for(*sent.end);
  }
  // Layout of the values: [loss sum, correct, losses..., norm if has_norm].
  const auto* value = sent.values.data_ptr<double>();
  status.loss_sum += value[0];
  status.correct += value[1];
  status.samples += static_cast<double>(sent.samples);
  status.scored += static_cast<double>(sent.scored);
  for (size_t i = 0; i < sent.steps.size() && !status.bad_loss; ++i) {
    if (!std::isfinite(value[2 + i])) {
      status.bad_loss = BadLoss{.step = sent.steps[i], .value = value[2 + i]};
    }
  }
  if (sent.has_norm) {
    status.gradient_norm = value[sent.values.numel() - 1];
  }
}

}  // namespace lockstep::train
