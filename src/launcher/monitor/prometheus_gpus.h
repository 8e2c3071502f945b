// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "launcher/monitor/metric_page.h"
#include "launcher/monitor/snapshot.h"

namespace lockstep::monitor {

// Adds the GPUs of all nodes with the names, units and labels of NVIDIA's dcgm-exporter, so that
// dashboards made for it work. The labels `run`, `node` and `rank` are additional.
void add_gpus(MetricPage& page, std::span<const Snapshot> runs);

}  // namespace lockstep::monitor
