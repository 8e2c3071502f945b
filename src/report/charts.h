// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "monitor/event_store.h"
#include "report/run_facts.h"
#include "report/svg_chart.h"

namespace lockstep::report {

// The charts of a run over time: loss, speed, GPUs, cores and the time breakdown of rank 0. Charts
// without points are omitted.
std::vector<Chart> make_charts(const RunFacts& facts, const monitor::EventStore& store);

}  // namespace lockstep::report
