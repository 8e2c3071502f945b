// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/trainer.h"
#include "training/train/loop/batch_feed.h"
#include "training/train/loop/checkpoint_driver.h"
#include "training/train/loop/ema.h"
#include "training/train/loop/reporter.h"
#include "training/train/loop/step_runner.h"
#include "training/train/loop/step_sync.h"
#include "training/train/loop/task.h"
#include "training/train/loop/training_position.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// One call of Trainer::fit, from resume to the final table. Create a Loop, call run() once.
//
// A Loop conducts the parts of a training: BatchFeed prepares batches, StepRunner executes steps,
// StepSync synchronizes the workers, CheckpointDriver saves, Reporter reports. The parts do not
// change each other's state.
//
// All workers run the same loop and must make the same collectives in the same order. Every
// decision that leads to a collective (to stop, to settle a checkpoint, to report a bad loss) must
// therefore be based on values that all workers share: the step, the options, or the result of the
// last status exchange (StepSync). A signal or the state of a writing thread is known to one worker
// only and is never used directly.
//
// loop.cpp contains epochs and steps, loop_checkpoint.cpp what a checkpoint contains.
class Loop {
 public:
  Loop(SessionParts& session,
       const TrainerOptions& options,
       Task task,
       std::vector<std::unique_ptr<Callback>>& callbacks);

  TrainResult run();

 private:
  using Clock = std::chrono::steady_clock;

  void require_recompute_known() const;
  void require_jpeg_known() const;
  void resume();
  void change_batch(const CheckpointState& saved);
  void train_epoch();
  void train_step(const Batch& batch);
  bool reports_norm() const;
  void exchange_status(bool checks_weights);
  void require_finite(const StepSyncResult& result) const;
  void after_step();
  void validate();
  void save();
  void finish_epoch();
  [[noreturn]] void stop();

  CheckpointState checkpoint_state() const;

  SessionParts& session_;
  TrainerOptions options_;
  Task task_;
  std::vector<std::unique_ptr<Callback>>& callbacks_;
  TrainingPosition position_;
  BatchFeed feed_;
  std::unique_ptr<Strategy> strategy_;
  CheckpointDriver checkpoints_;
  StepSync sync_;
  Reporter reporter_;
  StepRunner runner_;
  std::optional<Ema> ema_;
};

}  // namespace lockstep::train
