// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/run_energy.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <string>
#include <vector>

// Energy of a part of the run, for J/sample in the steady state. The totals of monitor::GpuTotals
// cover the whole run and cannot be used for that.
//
//   energy counter     |---*-------*-------*---|      *: samples
//                         from            to          counter_at() interpolates between samples
namespace lockstep::report {
namespace {

using monitor::Point;

constexpr double kEver = std::numeric_limits<double>::infinity();
constexpr size_t kAll = std::numeric_limits<size_t>::max();
constexpr double kSampleSeconds = 5;  // maximum distance of the outer samples from the ends

// The value of a counter, interpolated between two samples. A counter only grows, so `high` is the
// last value of a merged point, which belongs to its time.
// `points` must not be empty.
double counter_at(const std::vector<Point>& points, double time) {
  const auto after =
      std::ranges::find_if(points, [&](const Point& point) { return point.time >= time; });
  if (after == points.begin()) {
    return after->high;
  }
  if (after == points.end()) {
    return points.back().high;
  }
  const Point& before = *(after - 1);
  return before.high +
         (after->high - before.high) * (time - before.time) / (after->time - before.time);
}

bool covers(const std::vector<Point>& points, const TimeSpan& span) {
  return points.size() >= 2 && points.front().time <= span.from + kSampleSeconds &&
         points.back().time >= span.to - kSampleSeconds;
}

std::optional<double> find_counted(const std::vector<Point>& counter, const TimeSpan& span) {
  if (!covers(counter, span)) {
    return std::nullopt;
  }
  // The samples need not reach the ends of the span; extrapolates to them at the mean power.
  const double from = std::max(span.from, counter.front().time);
  const double to = std::min(span.to, counter.back().time);
  const double joules = counter_at(counter, to) - counter_at(counter, from);
  return to <= from || joules < 0 ? std::nullopt
                                  : std::optional(joules * (span.to - span.from) / (to - from));
}

// The mean power times the duration of the span, not a sum of rectangles: the result does not
// depend on the distance of the samples. A merged point counts once, although it stands for several
// samples.
std::optional<double> find_integrated(const std::vector<Point>& power, const TimeSpan& span) {
  double sum = 0;
  double count = 0;
  for (const Point& point : power) {
    if (point.time >= span.from && point.time <= span.to + kSampleSeconds) {
      sum += point.mean;
      ++count;
    }
  }
  return count == 0 || !covers(power, span) ? std::nullopt
                                            : std::optional(sum / count * (span.to - span.from));
}

}  // namespace

std::set<std::pair<int, int>> used_gpus(const monitor::Snapshot& run) {
  std::set<std::pair<int, int>> gpus;
  for (const monitor::RankView& rank : run.ranks) {
    for (const int gpu : rank.gpus) {
      gpus.emplace(rank.node, gpu);
    }
  }
  return gpus;
}

std::optional<double> find_energy(const monitor::EventStore& store,
                                  const monitor::Snapshot& run,
                                  const TimeSpan& span) {
  const std::set<std::pair<int, int>> gpus = used_gpus(run);
  double sum = 0;
  for (const auto& [node, gpu] : gpus) {
    const std::string name = fmt::format("node/{}/gpu/{}/", node, gpu);
    auto joules = find_counted(store.series(name + "energy_joules", -kEver, kEver, kAll), span);
    if (!joules) {
      joules = find_integrated(store.series(name + "power_watts", -kEver, kEver, kAll), span);
    }
    if (!joules) {
      return std::nullopt;
    }
    sum += *joules;
  }
  return gpus.empty() ? std::nullopt : std::optional(sum);
}

}  // namespace lockstep::report
