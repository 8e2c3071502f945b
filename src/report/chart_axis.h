// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lockstep::report {

// What one side of a chart shows.
struct Axis {
  double low = 0;
  double high = 1;
  bool is_log = false;
  std::vector<double> ticks = {};  // ascending, within low and high

  // Where a value lies, 0 to 1 from low to high; NaN for what this axis cannot show.
  double share_of(double value) const;
};

// An axis on which all values are, with ticks at round numbers: 1, 2 and 5 times a power of ten,
// and on a logarithmic axis of counts the powers of two. Not looked at: what is no number and, on a
// logarithmic axis, what is not above 0.
Axis make_axis(std::span<const double> values, bool is_log);

// "0.25", "1500", "25k", "1.2M"
std::string tick_text(double value);

}  // namespace lockstep::report
