// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "monitor/snapshot.h"

namespace lockstep::monitor {

// The content type under which Prometheus expects it.
inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

// The run in Prometheus' text format: GPUs under the names of NVIDIA's DCGM, all else as
// lockstep_..., docs/watch.md. `now` is the reader's clock, in seconds since the epoch.
std::string prometheus_text(const Snapshot& snapshot, double now);

}  // namespace lockstep::monitor
