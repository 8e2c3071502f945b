// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/callback.h"
#include "train/session_parts.h"

namespace lockstep::train {

// How far training is, in the words of a person.
struct ProgressView {
  int64_t epoch = 0;  // from 1
  int64_t epochs = 0;
  int64_t step_in_epoch = 0;
  int64_t steps_per_epoch = 0;
  double loss = 0;
  std::optional<double> accuracy;
  double samples_per_second = 0;  // 0: nobody knows yet, nor how long it takes
  double seconds_left = 0;
};

// The bar: "epoch 1/2 [====>     ]  47 %  loss 0.1234  accuracy 96.3 %  ..."; at most `columns`.
std::string format_bar(const ProgressView& view, int columns);

// The same without a bar.
std::string format_line(const ProgressView& view);

// "76.10 %, top-5 92.95 %"; the latter where there are more than five classes. The accuracy is
// known.
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

// "4 100"; "0.4"; "-" where there is no rate yet, as after one step.
std::string format_rate(double per_second);

// "4 100 samples/s, 938 steps in 14.2 s".
std::string format_speed(double samples_per_second, int64_t steps, double seconds);

// Tells a person how training goes, on rank 0: a bar where a terminal shows it, else one line per
// interval. A bar ends in a carriage return; the agent shows the newest such line at the bottom.
class Progress {
 public:
  Progress(const SessionParts& session, double seconds_between_lines);

  void update(const ProgressView& view);

  // A line that stays.
  void say(const std::string& line);

 private:
  bool speaks_;
  std::optional<int> columns_;
  bool draws_itself_;
  std::chrono::duration<double> interval_;
  std::chrono::steady_clock::time_point next_line_;
};

}  // namespace lockstep::train
