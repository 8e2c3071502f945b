// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lockstep::report {

// One axis of a chart.
struct Axis {
  double low = 0;
  double high = 1;
  bool is_log = false;
  std::vector<double> ticks = {};  // ascending, within low and high

  // The position of a value, 0 to 1 from low to high; NaN if the axis cannot show it.
  double share_of(double value) const;
};

// An axis that covers all values, with ticks at round numbers: 1, 2 and 5 times a power of ten, and
// powers of two on a logarithmic axis of counts. Ignores values that are not finite and, on a
// logarithmic axis, values that are not positive.
Axis make_axis(std::span<const double> values, bool is_log);

// "0.25", "1500", "25k", "1.2M"
std::string tick_text(double value);

}  // namespace lockstep::report
