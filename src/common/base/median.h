// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace lockstep {

// The mean of the two middle values if their number is even. 0 for no values.
double median(std::span<const double> values);

// Return one of the values, which must not be empty: the middle one, or the smaller or larger of
// the two middle ones.
double lower_median(std::vector<double> values);
double upper_median(std::vector<double> values);

// Half of the interquartile range, relative to the median.
double relative_spread(std::span<const double> values);

}  // namespace lockstep
