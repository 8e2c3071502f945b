// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/metrics.h"
#include "lockstep/trainer.h"
#include "training/train/loop/batch_feed.h"
#include "training/train/loop/checkpoint_driver.h"
#include "training/train/loop/delayed_status.h"
#include "training/train/loop/ema.h"
#include "training/train/loop/loss_watch.h"
#include "training/train/loop/reporter.h"
#include "training/train/loop/step_runner.h"
#include "training/train/loop/step_sync_exchange.h"
#include "training/train/loop/task.h"
#include "training/train/loop/training_position.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// One call of Trainer::fit, from resume to the final table. Create a Loop, call run() once.
//
// All workers run the same loop and must make the same collectives in the same order. Every
// decision that leads to a collective (to stop, to settle a checkpoint, to report a bad loss) must
// therefore be based on values that all workers share: the step, the options, or the result of the
// last status exchange (StepSyncExchange). A signal or the state of a writing thread is known to
// one worker only and is never used directly.
//
// The implementation is divided by subject: loop.cpp (epochs and steps) and
// loop_checkpoint.cpp (saving and resuming).
class Loop {
 public:
  Loop(SessionParts& session,
       const TrainerOptions& options,
       Task task,
       const std::optional<Schedule>& schedule,
       std::vector<std::unique_ptr<Callback>>& callbacks);

  TrainResult run();

 private:
  using Clock = std::chrono::steady_clock;

  void require_recompute_known() const;
  void resume();
  void change_batch(const CheckpointState& saved);
  void train_epoch();
  void train_step(const Batch& batch);
  bool tells_norm() const;
  void count(const std::vector<std::pair<Loss, Batch>>& results);
  void exchange_status(bool looks_at_weights = false);
  void require_finite(const StepSyncResult& news) const;
  void after_step();
  void validate();
  void save();
  void finish_epoch();
  [[noreturn]] void stop();

  std::vector<torch::Tensor> weights() const;
  CheckpointState checkpoint_state() const;

  SessionParts& session_;
  TrainerOptions options_;
  Task task_;
  std::vector<std::unique_ptr<Callback>>& callbacks_;
  TrainingPosition position_;
  BatchFeed feed_;
  std::unique_ptr<Strategy> strategy_;
  CheckpointDriver checkpoints_;
  StepSyncExchange exchange_;
  Reporter reporter_;
  StepRunner runner_;
  std::optional<Ema> ema_;
  std::optional<double> gradient_norm_;  // of the last step that computed it
  torch::Tensor late_norm_;              // likewise, while it is still on the GPU

  Meter lately_;  // since the last status exchange
  DelayedStatus delayed_status_;
  LossWatch loss_watch_;
  Meter epoch_;
  int64_t checked_step_ = -1;  // the last step whose weights were checked
  bool stop_agreed_ = false;
};

}  // namespace lockstep::train
