// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/callback.h"

namespace lockstep::train {

// How far a training has come, and where it ends; the same on every worker.
struct TrainingPosition {
  TrainState state;
  int64_t step_in_epoch = 0;    // completed steps of the current epoch
  int64_t epochs = 0;           // that are planned
  int64_t step_limit = 0;       // 0: no limit other than the epochs
  int64_t evaluated_step = -1;  // the step of the last evaluation
  bool stopped_early = false;   // by a callback
  // Completed steps minus the steps that the same epochs take with the current global batch. Not 0
  // after a resume with another global batch.
  int64_t extra_steps = 0;

  int64_t total_steps() const {
    const int64_t all = epochs * state.steps_per_epoch + extra_steps;
    return step_limit > 0 ? std::min(step_limit, all) : all;
  }

  bool is_finished() const { return stopped_early || state.step >= total_steps(); }
  bool is_epoch_complete() const { return step_in_epoch >= state.steps_per_epoch; }

  // Whether the next step is the last of its epoch or of the training.
  bool is_next_step_last() const {
    return step_in_epoch + 1 >= state.steps_per_epoch || state.step + 1 >= total_steps();
  }

  bool is_multiple(int64_t every) const { return every > 0 && state.step % every == 0; }

  void complete_step() {
    ++state.step;
    ++step_in_epoch;
  }

  void complete_epoch() {
    ++state.epoch;
    step_in_epoch = 0;
  }
};

}  // namespace lockstep::train
