// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/contract/run_directory.h"

namespace lockstep::report {

// The size of a run and its steady-state speed.
struct RunMeasure {
  std::string name = {};      // of its directory
  std::string program = {};   // without its arguments
  std::string strategy = {};  // empty: unknown
  int nodes = 0;              // 0: unknown
  int workers = 0;
  int gpus = 0;                                  // that its workers can use
  int64_t global_batch = 0;                      // 0: unknown
  int64_t gradient_bytes = 0;                    // 0: unknown
  double samples_per_second = 0;                 // median; 0: unknown
  double spread = 0;                             // half of the interquartile range over the median
  double step_seconds = 0;                       // median
  std::optional<double> exchange_share = {};     // exposed communication as a share of the step
  std::optional<double> joules_per_sample = {};  // of all GPUs
  std::string objection = {};                    // why the run cannot be used; empty: it can

  bool operator==(const RunMeasure&) const = default;
};

// Measures a run from its events so far. Uses the step reports since the last start without the
// first tenth (at least two), in which caches, connections and clocks are not yet steady.
RunMeasure measure_run(const contract::RunDirectory& run);

}  // namespace lockstep::report
