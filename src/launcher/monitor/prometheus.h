// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "launcher/monitor/snapshot.h"

namespace lockstep::monitor {

// The content type that Prometheus expects.
inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

// All metrics, or only the lockstep_ ones without those named as in DCGM.
enum class Names { All, Own };

// Formats runs in the Prometheus text format. GPU metrics have the names of NVIDIA's DCGM; all
// others start with lockstep_ (docs/watch.md). The run_id of each run must be unique, as it is the
// label that distinguishes them. `now` is the reader's clock, in seconds since the epoch.
std::string prometheus_text(std::span<const Snapshot> runs, double now, Names names = Names::All);

}  // namespace lockstep::monitor
