// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "monitor/series.h"

namespace lockstep::report {

// Steps per second between one report and the next, of the points of a series of steps. Evaluations
// and checkpoints make a few of them low, and not all.
std::vector<double> step_rates(const std::vector<monitor::Point>& steps);

}  // namespace lockstep::report
