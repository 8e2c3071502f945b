// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "report/scaling.h"

namespace lockstep::report {

// The runs of one strategy as sizes: those of the same workers and batch are one.
std::vector<ScalingSize> sizes_of(std::span<const RunMeasure> runs);

// The curves that the sizes make: one for each global batch and each batch per worker that there is
// of two numbers of workers or more. A size may be in one of each kind; all that are in none are
// together in one of unknown kind.
std::vector<ScalingCurve> curves_of(std::span<const ScalingSize> sizes);

// Against the smallest.
void set_speed_up(ScalingSize& size, const ScalingSize& smallest);

}  // namespace lockstep::report
