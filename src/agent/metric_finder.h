// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/metric.h"

namespace lockstep::agent {

// Finds the numbers of --metric in what one worker says. One thread.
class MetricFinder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kMostPerSecond = 100;
  // Of a line that is longer, the beginning is looked at.
  static constexpr size_t kLongestLine = 4096;

  MetricFinder(int rank, std::span<const plan::Metric> metrics);

  // Whole lines; what is found in them, one event a line, docs/events.md. No more than
  // kMostPerSecond in a second: a flood of output costs no more than that.
  std::string find(std::string_view lines, Clock::time_point now = Clock::now());

 private:
  struct Entry {
    std::string name;
    plan::NumberPattern pattern;
  };

  int rank_;
  std::vector<Entry> entries_;
  Clock::time_point second_;  // in which `found_` were found
  int found_ = 0;
};

}  // namespace lockstep::agent
