// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/metrics.h"
#include "lockstep/strategy.h"
#include "training/train/loop/checkpoint_driver.h"
#include "training/train/loop/delayed_status.h"
#include "training/train/loop/loss_watch.h"
#include "training/train/loop/step_outcome.h"
#include "training/train/loop/step_sync_exchange.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// Synchronizes the workers of a training between steps: collects the losses and gradient norms of
// this worker, and exchanges them with its stop signal and the state of its checkpoint.
class StepSync {
 public:
  // All references must outlive this. `strategy` must have adopted `model` before a call of
  // exchange() that checks the weights.
  StepSync(const SessionParts& session,
           const Strategy& strategy,
           const torch::nn::Module& model,
           const CheckpointDriver& checkpoints);

  // Adds the outcome of the step that follows `step` completed ones.
  void add(const StepOutcome& outcome, int64_t step);

  // Whether a status exchange is due after `step`.
  bool is_due(int64_t step) const { return exchange_.is_due(step); }

  // Performs the status exchange after `step`. All workers must call it after the same step. With
  // `checks_weights`, also waits for the GPU and checks that the weights are finite.
  StepSyncResult exchange(int64_t step, bool checks_weights);

  // The last step whose weights were checked; -1: none.
  int64_t checked_step() const { return checked_step_; }

  // Whether an exchange has found that a worker received a stop signal.
  bool is_stop_agreed() const { return is_stop_agreed_; }

  // Returns the norm of the gradient of the last step that computed it, once.
  std::optional<double> take_gradient_norm();

  // The losses of an epoch. finish_epoch() sums them over all workers, which must all call it;
  // epoch_loss() is valid after it.
  void begin_epoch() { epoch_.reset(); }
  void finish_epoch();
  double epoch_loss() const { return epoch_.loss(); }

 private:
  std::vector<torch::Tensor> weights() const;

  const SessionParts& session_;
  const Strategy& strategy_;
  const torch::nn::Module& model_;
  const CheckpointDriver& checkpoints_;
  StepSyncExchange exchange_;
  Meter recent_;  // since the last exchange
  Meter epoch_;   // until the last exchange
  DelayedStatus delayed_status_;
  LossWatch loss_watch_;
  std::optional<double> gradient_norm_;  // of the last step that computed it
  torch::Tensor late_norm_;              // likewise, while it is still on the GPU
  int64_t checked_step_ = -1;
  bool is_stop_agreed_ = false;
};

}  // namespace lockstep::train
