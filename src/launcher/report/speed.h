// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/monitor/event_store.h"
#include "launcher/report/run_facts.h"

namespace lockstep::report {

// All points of a series.
std::vector<monitor::Point> whole_series(const monitor::EventStore& store, const std::string& name);

// The training speed; `seconds` is the total duration of the run.
Speed measure_speed(const monitor::EventStore& store,
                    const monitor::Snapshot& snapshot,
                    double seconds);

// The energy consumption of the GPUs.
Energy measure_energy(const monitor::Snapshot& snapshot, const Speed& speed);

// The stragglers over the whole run, the slowest first; at most five.
std::vector<SlowRank> find_slow_ranks(const monitor::EventStore& store,
                                      const monitor::Snapshot& snapshot);

}  // namespace lockstep::report
