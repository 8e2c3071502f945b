// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "monitor/event_store.h"
#include "report/run_facts.h"

namespace lockstep::report {

// All points that a store has of a series.
std::vector<monitor::Point> whole_series(const monitor::EventStore& store, const std::string& name);

// How fast it trained; `seconds` is how long the run took in all.
Speed measure_speed(const monitor::EventStore& store,
                    const monitor::Snapshot& snapshot,
                    double seconds);

// What the GPUs used.
Energy measure_energy(const monitor::Snapshot& snapshot, const Speed& speed);

// Who held the others up, the worst first: at most five.
std::vector<SlowRank> find_slow_ranks(const monitor::EventStore& store,
                                      const monitor::Snapshot& snapshot);

}  // namespace lockstep::report
