// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/monitor/event_store.h"
#include "launcher/report/run_facts.h"
#include "launcher/report/svg_chart.h"

namespace lockstep::report {

// The charts of a run over time: loss, speed, GPUs, cores and the time breakdown of rank 0. Charts
// without points are omitted.
std::vector<Chart> make_charts(const RunFacts& facts, const monitor::EventStore& store);

}  // namespace lockstep::report
