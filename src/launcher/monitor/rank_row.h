// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/monitor/screen.h"

namespace lockstep::monitor {

// Utilization of the resources of a rank, 0 to 1. Absent: unknown.
struct Use {
  std::optional<double> gpu = {};  // mean over its GPUs
  std::optional<double> gpu_memory = {};
  std::optional<double> cpu = {};     // of its share of the granted cores
  std::optional<double> memory = {};  // of its share of the node's limit
  bool has_no_gpu = false;            // its node has no GPU
};
Use use_of(const Snapshot& snapshot, const RankView& rank);

// The ranks that pass the filter, in the order of the sort key. The pointers are valid as long as
// the snapshot.
std::vector<const RankView*> choose_ranks(const Snapshot& snapshot, const ScreenState& state);

// The table of ranks: one row each, with bars as wide as the screen allows.
class RowLayout {
 public:
  RowLayout(const Snapshot& snapshot, size_t columns);

  std::string head() const;
  ScreenLine row(const Snapshot& snapshot, const RankView& rank, double now) const;

 private:
  std::string group(const std::optional<double>& share, const std::string& fallback) const;

  size_t node_ = 0;  // width in columns
  size_t bar_ = 0;
};

}  // namespace lockstep::monitor
