// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/metric.h"

namespace lockstep::supervisor {

// Finds the numbers of --metric in the output of one worker. Not thread-safe.
class MetricFinder {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kMaxPerSecond = 100;
  // Only this many bytes of a line are searched.
  static constexpr size_t kLongestLine = 4096;

  MetricFinder(int rank, std::span<const plan::Metric> metrics);

  // Searches complete lines. Returns one event per line (docs/events.md), at most kMaxPerSecond
  // per second, which limits the cost of a flood of output.
  std::string find(std::string_view lines, Clock::time_point now = Clock::now());

 private:
  struct Entry {
    std::string name;
    plan::NumberPattern pattern;
  };

  int rank_;
  std::vector<Entry> entries_;
  Clock::time_point second_;  // start of the second in which found_ is counted
  int found_ = 0;
};

}  // namespace lockstep::supervisor
