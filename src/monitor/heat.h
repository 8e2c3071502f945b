// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "monitor/event_store.h"

namespace lockstep::monitor {

// Who holds the others up: each rank's own time for a step, over time, against the median of all.
struct Heat {
  struct Slow {
    int rank = 0;
    int percent = 0;  // of the median, over all columns

    bool operator==(const Slow&) const = default;
  };
  std::vector<int> ranks = {};
  std::vector<double> times = {};                              // where each column ends
  std::vector<std::vector<std::optional<int>>> percents = {};  // by rank, then by column
  std::vector<Slow> slowest = {};                              // at most five above 105 percent
};

// From the curves of one quantity, by rank; `most_columns` is at least 1.
Heat make_heat(const std::vector<int>& ranks,
               const std::vector<std::vector<Point>>& curves,
               size_t most_columns);

// The same from rank/R/own_seconds; empty where no rank has told.
Heat make_heat(const EventStore& store, const std::vector<int>& ranks, size_t most_columns);

}  // namespace lockstep::monitor
