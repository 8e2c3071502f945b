// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "monitor/metric_page.h"
#include "monitor/snapshot.h"

namespace lockstep::monitor {

// The GPUs of all nodes, under the names, in the units and with the labels of NVIDIA's
// dcgm-exporter, so that dashboards made for it work here. `run`, `node` and `rank` are ours.
void add_gpus(MetricPage& page, std::span<const Snapshot> runs);

}  // namespace lockstep::monitor
