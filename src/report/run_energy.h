// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <utility>

#include "monitor/event_store.h"

namespace lockstep::report {

struct TimeSpan {
  double from = 0;  // seconds since the epoch
  double to = 0;
};

// Node and index of each GPU that a worker of the run may use.
std::set<std::pair<int, int>> used_gpus(const monitor::Snapshot& run);

// The joules that all these have taken within the time: what their counters say, or else their
// power over that time. Nothing where one of them tells neither, or there is none.
std::optional<double> find_energy(const monitor::EventStore& store,
                                  const monitor::Snapshot& run,
                                  const TimeSpan& span);

}  // namespace lockstep::report
