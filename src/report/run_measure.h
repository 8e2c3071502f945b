// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "contract/run_directory.h"

namespace lockstep::report {

// How large a run was, and how fast when it was under way.
struct RunMeasure {
  std::string name = {};      // of its directory
  std::string program = {};   // without its arguments
  std::string strategy = {};  // empty: not told
  int nodes = 0;              // 0: not told
  int workers = 0;
  int gpus = 0;                               // that its workers may use
  int64_t global_batch = 0;                   // 0: not told
  double samples_per_second = 0;              // the median; 0: not told
  double spread = 0;                          // half of the middle half, as a share of the median
  double step_seconds = 0;                    // the median
  std::optional<double> exchange_share = {};  // of the step, in which a worker waits for others
  std::optional<double> joules_per_sample = {};  // of all GPUs
  std::string objection = {};                    // why it measures nothing; empty: it does

  bool operator==(const RunMeasure&) const = default;
};

// Reads what a run has told up to now. Of its step reports since the last start, the first tenth
// (and two at least) are left out: caches, connections and clocks are not yet as they will be.
RunMeasure measure_run(const contract::RunDirectory& run);

}  // namespace lockstep::report
