// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/median.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep::report {
namespace {

// Interpolates linearly between neighbouring values, as NumPy does by default.
double quantile(std::span<const double> values, double share) {
  if (values.empty()) {
    return 0;
  }
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

constexpr double kHalf = 0.5;
constexpr double kQuarter = 0.25;

}  // namespace

double median(std::span<const double> values) {
  return quantile(values, kHalf);
}

double relative_spread(std::span<const double> values) {
  const double middle = median(values);
  return middle == 0 ? 0
                     : (quantile(values, 1 - kQuarter) - quantile(values, kQuarter)) / 2 / middle;
}

}  // namespace lockstep::report
