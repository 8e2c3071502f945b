// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/strategy.h"
#include "lockstep/trainer.h"
#include "training/comm/side_stream.h"
#include "training/train/loop/graph_step.h"
#include "training/train/loop/learning_rate_schedule.h"
#include "training/train/loop/reporter.h"
#include "training/train/loop/run_ahead.h"
#include "training/train/loop/step_outcome.h"
#include "training/train/loop/step_timer.h"
#include "training/train/loop/task.h"
#include "training/train/options/loss_scale.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// The place of a step in the training; the same on every worker.
struct StepPlan {
  int64_t step = 0;            // completed steps before this one
  int64_t global_samples = 0;  // of all workers
  bool is_full = true;      // false: the batch is smaller than those before, at the end of an epoch
  bool wants_norm = false;  // the norm of the gradient will be reported
};

// Executes the steps of a training on this worker: forward, backward and optimizer update, on a GPU
// as a CUDA graph where that is possible.
class StepRunner {
 public:
  // All references must outlive this.
  StepRunner(const SessionParts& session,
             const TrainerOptions& options,
             const Task& task,
             Strategy& strategy,
             Reporter& reporter);

  // Prepares the device. Call it once, before the first step. Returns the stream that must be
  // current from then on, if steps are to be recorded as a CUDA graph.
  std::optional<comm::SideStream> prepare();

  StepOutcome run(const Batch& batch, const StepPlan& plan);

  // Call after each step. Waits while the GPU is too far behind.
  void limit_run_ahead();

  // Continues with the kernel and the loss scale of a checkpoint; both can be empty.
  void restore(const std::string& convolution, const std::string& loss_scale);

  // The kernel for convolutions; empty: not selected yet, or no choice.
  const std::string& convolution() const { return convolution_; }
  const LossScaler& loss_scaler() const { return loss_scaler_; }
  const LearningRateSchedule& schedule() const { return schedule_; }
  LearningRateSchedule& schedule() { return schedule_; }
  StepTimer& timer() { return timer_; }

 private:
  std::string reason_against_graph() const;
  void record_graph(const Batch& batch);
  void choose_convolution_once(const Batch& batch);
  void replay(const Batch& batch, const StepPlan& plan, StepOutcome& outcome);
  void compute(const Batch& batch, const StepPlan& plan, StepOutcome& outcome);

  const SessionParts& session_;
  const TrainerOptions& options_;
  const Task& task_;
  Strategy& strategy_;
  Reporter& reporter_;
  LossScaler loss_scaler_;
  StepTimer timer_;
  LearningRateSchedule schedule_;
  std::string convolution_;
  bool convolution_chosen_ = false;
  std::optional<RunAhead> run_ahead_;
  std::unique_ptr<GraphStep> graph_;
  int64_t steps_before_graph_ = -1;  // steps until one is recorded; negative: never
};

}  // namespace lockstep::train
