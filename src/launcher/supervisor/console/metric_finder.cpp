// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/console/metric_finder.h"

#include <algorithm>
#include <cmath>

#include "common/base/clock.h"
#include "common/contract/event.h"

namespace lockstep::supervisor {
namespace {

// JSON has no NaN and no infinity, but a loss that became NaN must be visible.
contract::Event::Value to_value(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  return value;
}

}  // namespace

MetricFinder::MetricFinder(int rank, std::span<const plan::Metric> metrics) : rank_(rank) {
  for (const plan::Metric& metric : metrics) {
    entries_.push_back({metric.name, plan::NumberPattern(metric.pattern)});
  }
}

// All lines of a chunk get the same time: they arrived together. Beyond the limit, lines are not
// even searched, since the regular expressions are the expensive part.
std::string MetricFinder::find(std::string_view lines, Clock::time_point now) {
  std::string events;
  if (entries_.empty()) {
    return events;
  }
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    found_ = 0;
  }
  const double time = wall_time();
  while (!lines.empty() && found_ < kMaxPerSecond) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, std::min(end, kLongestLine));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    for (const Entry& entry : entries_) {
      const auto value = found_ < kMaxPerSecond ? entry.pattern.find(line) : std::nullopt;
      if (value) {
        ++found_;
        events +=
            contract::to_json({.kind = "metric",
                               .time = time,
                               .rank = rank_,
                               .fields = {{"name", entry.name}, {"value", to_value(*value)}}});
        events += '\n';
      }
    }
  }
  return events;
}

}  // namespace lockstep::supervisor
