// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "launcher/monitor/event_store.h"

namespace lockstep::monitor {

// A heat map of stragglers: the own step time of each rank over time, relative to the median of all
// ranks. The own step time excludes waiting for other ranks.
struct Heat {
  struct Slow {
    int rank = 0;
    int percent = 0;  // of the median; itself the median over all columns

    bool operator==(const Slow&) const = default;
  };
  std::vector<int> ranks = {};
  std::vector<double> times = {};                              // the end of each column
  std::vector<std::vector<std::optional<int>>> percents = {};  // by rank, then by column
  std::vector<Slow> slowest = {};                              // at most five above 105 percent
};

// Computes the heat map from one curve per rank; `max_columns` must be at least 1.
Heat make_heat(const std::vector<int>& ranks,
               const std::vector<std::vector<Point>>& curves,
               size_t max_columns);

// Computes the heat map from the series rank/R/own_seconds; empty if no rank has reported any.
Heat make_heat(const EventStore& store, const std::vector<int>& ranks, size_t max_columns);

}  // namespace lockstep::monitor
