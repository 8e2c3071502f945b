// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <torch/optim.h>
#include <vector>

#include "lockstep/schedule.h"
#include "lockstep/trainer.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// Sets the learning rates of an optimizer before each step. The rates that the optimizer has at
// construction are the base rates, which the schedule multiplies.
class LearningRateSchedule {
 public:
  // All references must outlive this. `own` is the schedule of the program, if it has one.
  LearningRateSchedule(const SessionParts& session,
                       const TrainerOptions& options,
                       torch::optim::Optimizer& optimizer,
                       const std::optional<Schedule>& own);

  // Selects the schedule for a training of `total_steps` steps: that of ds_config.json, that of the
  // program, or the one that the options name. Call it before apply().
  void select(int64_t total_steps);

  // Sets the rates of step `step`, before which `skipped` steps were skipped. Returns the first.
  double apply(int64_t step, int64_t skipped);

  // Gives the optimizer the base rates.
  void reset();

  double base_rate() const { return base_rates_.front(); }
  const std::string& text() const { return schedule_.text(); }

  // Whether a training of `total_steps` steps ends within the warm-up of the options.
  bool ends_in_warmup(int64_t total_steps) const;

 private:
  bool is_of_file() const;  // ds_config.json has a scheduler

  const SessionParts& session_;
  const TrainerOptions& options_;
  torch::optim::Optimizer& optimizer_;
  Schedule schedule_;
  bool has_own_;
  std::vector<double> base_rates_;
};

}  // namespace lockstep::train
