// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "monitor/event_store.h"
#include "report/run_facts.h"
#include "report/svg_chart.h"

namespace lockstep::report {

// What is drawn of a run over its time, those without any point left out: loss, speed, GPUs, cores,
// where the time of rank 0 went.
std::vector<Chart> make_charts(const RunFacts& facts, const monitor::EventStore& store);

}  // namespace lockstep::report
