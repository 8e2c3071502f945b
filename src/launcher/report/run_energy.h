// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <utility>

#include "launcher/monitor/event_store.h"

namespace lockstep::report {

struct TimeSpan {
  double from = 0;  // seconds since the epoch
  double to = 0;
};

// Node and index of each GPU that a worker of the run can use.
std::set<std::pair<int, int>> used_gpus(const monitor::Snapshot& run);

// The energy of all these GPUs within the time span, in joules: from their counters or, as a
// fallback, from power times time. Nothing if a GPU reports neither, or if there are no GPUs.
std::optional<double> find_energy(const monitor::EventStore& store,
                                  const monitor::Snapshot& run,
                                  const TimeSpan& span);

}  // namespace lockstep::report
