// SPDX-License-Identifier: Apache-2.0
//
// The life of one checkpoint as seen by the loop:
//
//   save()      step N: training stops while the state is copied (stall), then continues
//               ... steps N+1, N+2, ... while a thread writes ...
//   settle()    when all workers know from a status exchange that rank 0 has finished, or
//               before the next save, or at the end: compare outcomes, report, call callbacks
//
// At most one save is in progress. settle() contains collectives, so that every worker must call it
// after the same step.
#include "training/train/loop/checkpoint_driver.h"

namespace lockstep::train {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The lowest test loss is the best checkpoint. Without a test data set there is no best one.
Retention retention(const TrainerOptions& options, const DatasetPtr& test) {
  Retention keep{.keep_last = options.keep_checkpoints,
                 .keep_for = std::chrono::seconds(options.keep_checkpoints_for)};
  if (test != nullptr) {
    keep.best_metric = "test_loss";
    keep.best_is_max = false;
  }
  return keep;
}

}  // namespace

CheckpointDriver::CheckpointDriver(SessionParts& session,
                                   const TrainerOptions& options,
                                   const Task& task,
                                   const Callbacks& callbacks)
    : session_(session),
      options_(options),
      callbacks_(callbacks),
      checkpointing_(
          session,
          task.model,
          task.optimizer,
          {.retention = retention(options, task.test), .saves = options.checkpoint_every >= 0}) {}

std::optional<Checkpointing::Restored> CheckpointDriver::restore(Strategy& strategy) {
  std::optional<Checkpointing::Restored> restored = checkpointing_.restore(strategy);
  if (restored) {
    resumed_from_ = restored->directory.string();
  }
  return restored;
}

bool CheckpointDriver::is_missing(int64_t step) const {
  return options_.checkpoint_every >= 0 && saved_step_ != step;
}

void CheckpointDriver::save(const CheckpointState& checkpoint,
                            const TrainState& state,
                            const Strategy& strategy,
                            const std::vector<TensorPiece>& averages,
                            Clock::time_point begun) {
  session_.communicator->set_phase("a checkpoint");
  saved_step_ = state.step;
  checkpointing_.save(checkpoint, strategy, averages);
  saving_ = Saving{.state = state, .begun = begun, .stall = seconds_between(begun, Clock::now())};
  if (!options_.checkpoint_async) {
    settle();
  }
}

// saving_ is cleared before the wait: if it throws, a second call must not wait again. The duration
// counts until the writing thread has finished, not until this call.
void CheckpointDriver::settle(bool failed_elsewhere) {
  if (!saving_) {
    return;
  }
  const auto start = Clock::now();
  session_.communicator->set_phase("a checkpoint");
  const Saving saved = *saving_;
  saving_.reset();
  last_ = checkpointing_.settle(failed_elsewhere).string();
  session_.report("checkpoint",
                  {{"step", saved.state.step},
                   {"directory", last_},
                   {"bytes", static_cast<int64_t>(checkpointing_.bytes())},
                   {"seconds", seconds_between(saved.begun, checkpointing_.finished())},
                   {"stall_seconds", saved.stall + seconds_between(start, Clock::now())}});
  for (const auto& callback : callbacks_) {
    callback->on_checkpoint(saved.state, last_);
  }
}

void CheckpointDriver::publish_weights() {
  const std::string& newest = last_.empty() ? resumed_from_ : last_;
  if (options_.checkpoint_every >= 0 && !newest.empty()) {
    checkpointing_.publish_weights(newest);
  }
}

}  // namespace lockstep::train
