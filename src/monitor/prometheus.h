// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "monitor/snapshot.h"

namespace lockstep::monitor {

// The content type under which Prometheus expects it.
inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

// Which metrics: all, or those that do not have DCGM's names.
enum class Names { All, Own };

// Runs in Prometheus' text format: GPUs under the names of NVIDIA's DCGM, all else as
// lockstep_..., docs/watch.md. Their run_id tells them apart. `now` is the reader's clock, in
// seconds since the epoch.
std::string prometheus_text(std::span<const Snapshot> runs, double now, Names names = Names::All);

}  // namespace lockstep::monitor
