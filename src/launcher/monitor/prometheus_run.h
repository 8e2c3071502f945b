// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launcher/monitor/metric_page.h"
#include "launcher/monitor/snapshot.h"

namespace lockstep::monitor {

// The labels that identify a run.
MetricPage::Labels run_labels(const Snapshot& run);

MetricPage::Labels with(MetricPage::Labels labels, std::string_view label, std::string content);

// Adds the metrics of each run as a whole. `now` is the reader's clock.
void add_runs(MetricPage& page, std::span<const Snapshot> runs, double now);

}  // namespace lockstep::monitor
