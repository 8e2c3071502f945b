// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/monitor/series.h"

namespace lockstep::report {

// Steps per second between consecutive reports, from a series of steps. Evaluations and checkpoints
// lower only a few of the rates, so their median ignores these pauses.
std::vector<double> step_rates(const std::vector<monitor::Point>& steps);

}  // namespace lockstep::report
