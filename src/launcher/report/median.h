// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace lockstep::report {

// 0 for no values.
double median(std::span<const double> values);

// Half of the interquartile range, relative to the median.
double relative_spread(std::span<const double> values);

}  // namespace lockstep::report
