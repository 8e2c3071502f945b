// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/chart_axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <utility>

namespace lockstep::report {
namespace {

// Comparisons below have a tolerance of 1e-9: 0.3 / 0.1 is not 3 in binary, and a tick must not be
// lost or added by rounding.
constexpr int kMaxTicks = 8;
constexpr double kTen = 10;

bool can_show(double value, bool is_log) {
  return std::isfinite(value) && (!is_log || value > 0);
}

// The smallest step of 1, 2 or 5 times a power of ten that is at least `minimum`.
double round_step(double minimum) {
  const double power = std::pow(kTen, std::floor(std::log10(minimum)));
  constexpr std::array<double, 3> kSteps = {1, 2, 5};
  const auto* const found = std::ranges::find_if(
      kSteps, [&](double step) { return step * power >= minimum * (1 - 1e-9); });
  return (found == kSteps.end() ? kTen : *found) * power;
}

// The axis ends at ticks, so that every line is between two labels. A constant value gets room of
// half its size on both sides; 0 becomes an axis from 0 to 1.
Axis linear_axis(double low, double high) {
  if (low == high) {
    const double room = low == 0 ? 1 : std::abs(low) / 2;
    low -= low == 0 ? 0 : room;
    high += room;
  }
  const double step = round_step((high - low) / (kMaxTicks - 1));
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  Axis axis{.low = first * step, .high = last * step};
  const auto count = static_cast<int>(last - first) + 1;
  axis.ticks.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    axis.ticks.push_back((first + i) * step);
  }
  return axis;
}

// Powers of `base` from at most `low` to at least `high`, with a stride that limits their number.
std::vector<double> powers(double base, double low, double high) {
  const auto first = static_cast<int>(std::floor(std::log(low) / std::log(base) + 1e-9));
  const auto last = static_cast<int>(std::ceil(std::log(high) / std::log(base) - 1e-9));
  const int stride = std::max(1, (last - first + kMaxTicks - 1) / kMaxTicks);
  std::vector<double> found;
  found.reserve(static_cast<size_t>((last - first) / stride) + 2);
  for (int i = first; i < last + stride; i += stride) {
    found.push_back(std::pow(base, i));
  }
  return found;
}

// Counts, such as workers, double rather than grow tenfold: powers of two are used if the range is
// at most twelve doublings. Over few decades, 2 and 5 times each power of ten are added, or the
// axis would have two or three labels.
Axis log_axis(double low, double high) {
  constexpr double kManyDoublings = 4096;
  const bool is_count = low >= 1 && high / low <= kManyDoublings;
  if (low == high) {
    low /= 2;
    high *= 2;
  }
  const std::vector<double> ticks = powers(is_count ? 2 : kTen, low, high);
  Axis axis{.low = ticks.front(), .high = ticks.back(), .is_log = true, .ticks = ticks};
  constexpr double kFewDecades = 1001;
  if (!is_count && axis.high / axis.low < kFewDecades) {
    axis.ticks.clear();
    axis.ticks.reserve(3 * ticks.size());
    for (const double decade : ticks) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * decade <= axis.high) {
          axis.ticks.push_back(factor * decade);
        }
      }
    }
  }
  return axis;
}

}  // namespace

double Axis::share_of(double value) const {
  if (!can_show(value, is_log)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return is_log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
}

Axis make_axis(std::span<const double> values, bool is_log) {
  std::optional<double> low;
  std::optional<double> high;
  for (const double value : values) {
    if (can_show(value, is_log)) {
      low = std::min(low.value_or(value), value);
      high = std::max(high.value_or(value), value);
    }
  }
  if (is_log) {
    return log_axis(low.value_or(1), high.value_or(kTen));
  }
  return linear_axis(low.value_or(0), high.value_or(1));
}

std::string tick_text(double value) {
  constexpr double kFromThousands = 10000;
  constexpr std::array<std::pair<double, const char*>, 3> kUnits = {
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}}};
  for (const auto& [unit, letter] : kUnits) {
    if (std::abs(value) >= unit) {
      return fmt::format("{:.10g}{}", value / unit, letter);
    }
  }
  if (std::abs(value) >= kFromThousands) {
    return fmt::format("{:.10g}k", value / 1000);
  }
  return fmt::format("{:.10g}", value);
}

}  // namespace lockstep::report
