// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "launcher/report/scaling.h"

namespace lockstep::report {

// Groups the runs of one strategy into sizes: runs with the same workers and batch are one size.
std::vector<ScalingSize> sizes_of(std::span<const RunMeasure> runs);

// Groups sizes into curves: one for each global batch, and one for each batch per worker, that
// occurs with at least two numbers of workers. A size can be part of one curve of each kind. Sizes
// that are in no curve form one of unknown kind.
std::vector<ScalingCurve> curves_of(std::span<const ScalingSize> sizes);

// Sets speed-up and efficiency relative to the smallest size.
void set_speed_up(ScalingSize& size, const ScalingSize& smallest);

}  // namespace lockstep::report
