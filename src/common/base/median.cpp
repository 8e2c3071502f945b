// SPDX-License-Identifier: Apache-2.0
#include "common/base/median.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

// Interpolates linearly between neighbouring values, as NumPy does by default.
double quantile(std::span<const double> values, double share) {
  if (values.empty()) {
    return 0;
  }
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double index = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(index);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], index - static_cast<double>(below));
}

// nth_element instead of sorting: linear time, and the order of the other values does not matter.
double value_at(std::vector<double>& values, size_t index) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

constexpr double kHalf = 0.5;
constexpr double kQuarter = 0.25;

}  // namespace

double median(std::span<const double> values) {
  return quantile(values, kHalf);
}

double lower_median(std::vector<double> values) {
  return value_at(values, (values.size() - 1) / 2);
}

double upper_median(std::vector<double> values) {
  return value_at(values, values.size() / 2);
}

double relative_spread(std::span<const double> values) {
  const double middle = median(values);
  return middle == 0 ? 0
                     : (quantile(values, 1 - kQuarter) - quantile(values, kQuarter)) / 2 / middle;
}

}  // namespace lockstep
