// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <torch/nn/module.h>
#include <vector>

#include "lockstep/metrics.h"
#include "lockstep/trainer.h"
#include "training/train/loop/batch_feed.h"
#include "training/train/loop/learning_rate_schedule.h"
#include "training/train/loop/progress.h"
#include "training/train/loop/step_sync_exchange.h"
#include "training/train/loop/step_timer.h"
#include "training/train/loop/training_position.h"
#include "training/train/options/loss_scale.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// Reports a training: progress lines, events and the final table, and measures its throughput.
// Every worker makes the same calls; lines are printed by rank 0.
class Reporter {
 public:
  using Clock = std::chrono::steady_clock;

  // All references must outlive this.
  Reporter(SessionParts& session, const TrainerOptions& options, const TrainingPosition& position);

  // Prints a line that stays visible.
  void say(const std::string& line) { progress_.say(line); }

  // What begin() describes.
  struct Introduction {
    std::string_view strategy;
    const torch::nn::Module& model;
    const BatchFeed& feed;
    const LearningRateSchedule& schedule;
    const std::vector<std::string>& memory;  // lines about the memory that the training needs
  };

  // Reports the start of the training and starts its clock.
  void begin(const Introduction& introduction);

  void begin_epoch();

  // Counts a completed step with `samples` samples of all workers.
  void count_step(int64_t samples);

  // Excludes `time` from the throughput: the training was suspended.
  void pause(Clock::duration time);

  // The line of DeepSpeed's steps_per_print; wall_clock_breakdown adds the time of each phase.
  void print_step(int64_t skipped, StepTimer& timer);

  // Updates the progress and writes a step event. Times are those of this worker since the previous
  // step event. `are_all_done`: the GPU has completed all steps.
  void report_step(const StepSyncResult& result,
                   std::optional<double> gradient_norm,
                   StepTimer& timer,
                   bool are_all_done);

  void report_evaluation();

  // An epoch of which `steps` steps were completed. `is_complete`: the position is already at the
  // start of the next one.
  void report_epoch(double train_loss, int64_t steps, bool is_complete);

  void report_end(const LossScaler& scaler, const std::string& checkpoint);

  TrainResult result(int64_t skipped) const;

 private:
  ProgressView view(const StepSyncResult& result) const;
  double seconds() const;  // since begin()

  SessionParts& session_;
  const TrainerOptions& options_;
  const TrainingPosition& position_;
  Progress progress_;
  Throughput throughput_;  // of the entire training
  Throughput epoch_throughput_;
  Clock::time_point begun_ = Clock::now();
  int64_t first_step_ = 0;  // steps before this process resumed
  Clock::time_point epoch_begun_ = Clock::now();
  std::vector<EpochSummary> summaries_;
};

}  // namespace lockstep::train
