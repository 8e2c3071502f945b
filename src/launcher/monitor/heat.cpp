// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/heat.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <utility>

#include "common/base/median.h"

// From one curve per rank to a matrix of percentages:
//
// 1. The time from the first to the last point of any rank is divided into columns of equal width.
// 2. A cell is the mean own step time of a rank in that column.
// 3. Each cell is divided by the median of its column over the ranks.
//
// The division by the median of the same column removes effects on all ranks (a longer batch,
// another phase of the training) and leaves the differences between ranks.
namespace lockstep::monitor {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The median of the values that are known; NaN if none is.
double median_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  return values.empty() ? kUnknown : upper_median(std::move(values));
}

struct Span {
  double from = std::numeric_limits<double>::infinity();
  double to = -std::numeric_limits<double>::infinity();
};

Span span_of(const std::vector<std::vector<Point>>& curves) {
  Span span;
  for (const std::vector<Point>& curve : curves) {
    if (!curve.empty()) {
      span.from = std::min(span.from, curve.front().time);
      span.to = std::max(span.to, curve.back().time);
    }
  }
  return span;
}

// The mean of the points in each column; NaN for a column without points.
std::vector<double> columns_of(const std::vector<Point>& curve, const Span& span, size_t columns) {
  std::vector<double> sums(columns, 0);
  std::vector<int> counts(columns, 0);
  const double width = (span.to - span.from) / static_cast<double>(columns);
  for (const Point& point : curve) {
    if (std::isnan(point.mean)) {
      continue;
    }
    const double index = width > 0 ? (point.time - span.from) / width : 0;
    const size_t column = std::min(columns - 1, static_cast<size_t>(std::max(0.0, index)));
    sums[column] += point.mean;
    ++counts[column];
  }
  for (size_t i = 0; i < columns; ++i) {
    sums[i] = counts[i] > 0 ? sums[i] / counts[i] : kUnknown;
  }
  return sums;
}

// The median over the columns, not the mean: one pause, such as a checkpoint, does not make a rank
// slow. Five percent is well above the noise of a median over at least some columns.
std::vector<Heat::Slow> slowest_of(const Heat& heat) {
  constexpr int kNotable = 105;
  constexpr size_t kMaximum = 5;
  std::vector<Heat::Slow> slow;
  for (size_t r = 0; r < heat.ranks.size(); ++r) {
    std::vector<double> percents;
    for (const auto& percent : heat.percents[r]) {
      percents.push_back(percent ? *percent : kUnknown);
    }
    const double middle = median_of(std::move(percents));
    if (middle > kNotable) {
      slow.push_back({.rank = heat.ranks[r], .percent = static_cast<int>(std::lround(middle))});
    }
  }
  std::stable_sort(slow.begin(), slow.end(), [](const Heat::Slow& one, const Heat::Slow& other) {
    return one.percent > other.percent;
  });
  slow.resize(std::min(slow.size(), kMaximum));
  return slow;
}

}  // namespace

Heat make_heat(const std::vector<int>& ranks,
               const std::vector<std::vector<Point>>& curves,
               size_t max_columns) {
  size_t longest = 0;
  for (const std::vector<Point>& curve : curves) {
    longest = std::max(longest, curve.size());
  }
  if (longest == 0) {
    return {};
  }
  // More columns than points would be mostly empty.
  const size_t columns = std::min(longest, max_columns);
  const Span span = span_of(curves);
  std::vector<std::vector<double>> values;
  values.reserve(curves.size());
  for (const std::vector<Point>& curve : curves) {
    values.push_back(columns_of(curve, span, columns));
  }

  Heat heat{.ranks = ranks, .times = {}, .percents = {}, .slowest = {}};
  heat.percents.assign(ranks.size(), std::vector<std::optional<int>>(columns));
  for (size_t c = 0; c < columns; ++c) {
    heat.times.push_back(span.from + (span.to - span.from) * static_cast<double>(c + 1) /
                                         static_cast<double>(columns));
    std::vector<double> column;
    column.reserve(values.size());
    for (const std::vector<double>& row : values) {
      column.push_back(row[c]);
    }
    const double middle = median_of(std::move(column));
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (middle > 0 && !std::isnan(values[r][c])) {
        heat.percents[r][c] =
            static_cast<int>(std::lround(std::min(1e6, 100 * values[r][c] / middle)));
      }
    }
  }
  heat.slowest = slowest_of(heat);
  return heat;
}

// Twice as many points as columns, so that a column has a point even if ranks report at different
// times.
Heat make_heat(const EventStore& store, const std::vector<int>& ranks, size_t max_columns) {
  constexpr double kForever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<Point>> curves;
  curves.reserve(ranks.size());
  for (const int rank : ranks) {
    curves.push_back(store.series(
        fmt::format("rank/{}/own_seconds", rank), -kForever, kForever, 2 * max_columns));
  }
  return make_heat(ranks, curves, max_columns);
}

}  // namespace lockstep::monitor
