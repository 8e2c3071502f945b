// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/callback.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// The values of a progress line.
struct ProgressView {
  int64_t epoch = 0;  // from 1
  int64_t epochs = 0;
  int64_t step_in_epoch = 0;
  int64_t steps_per_epoch = 0;
  double loss = 0;
  std::optional<double> accuracy;
  double samples_per_second = 0;  // 0: unknown, and so is seconds_left
  double seconds_left = 0;
};

// Returns "epoch 1/2 [====>     ]  47 %  loss 0.1234  accuracy 96.3 %  ...", cut to `columns`.
std::string format_bar(const ProgressView& view, int columns);

// Returns the same values without a bar.
std::string format_line(const ProgressView& view);

// Returns "76.10 %, top-5 92.95 %"; the second part only with more than five classes. Requires
// evaluation.accuracy.
std::string format_accuracy(const Evaluation& evaluation);

// One row of the final table.
struct EpochSummary {
  int64_t epoch = 0;
  double train_loss = 0;
  std::optional<Evaluation> test;
  double samples_per_second = 0;
  double seconds = 0;
};

std::string format_table(const std::vector<EpochSummary>& epochs);

// Returns "4 100", "0.4", or "-" if there is no rate yet, as after one step.
std::string format_rate(double per_second);

// Returns "4 100 samples/s, 938 steps in 14.2 s".
std::string format_speed(double samples_per_second, int64_t steps, double seconds);

// Prints the progress of the training on rank 0: a bar if the output is a terminal, otherwise one
// line per interval. A bar ends with a carriage return; the agent displays the latest such line at
// the bottom of the terminal.
class Progress {
 public:
  Progress(const SessionParts& session, double seconds_between_lines);

  void update(const ProgressView& view);

  // Prints a line that stays visible.
  void say(const std::string& line);

 private:
  bool prints_;
  std::optional<int> columns_;
  bool draws_itself_;
  std::chrono::duration<double> interval_;
  std::chrono::steady_clock::time_point next_line_;
};

}  // namespace lockstep::train
