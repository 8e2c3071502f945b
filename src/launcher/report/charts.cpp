// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/charts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>

#include "launcher/report/speed.h"

namespace lockstep::report {
namespace {

using monitor::Point;

constexpr double kEver = std::numeric_limits<double>::infinity();
constexpr size_t kMaxPoints = 300;  // of a line; a page cannot show more
constexpr size_t kMaxLines = 8;

// The unit of the time axis.
struct Span {
  double begin = 0;
  double unit = 1;  // seconds
  const char* name = "seconds";
};

// A unit is used from three of it on, so that a chart has at least three whole units.
Span span_of(const RunFacts& facts) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kMany = 3;
  const double seconds = facts.seconds();
  if (seconds > kMany * kHour) {
    return {.begin = facts.begin, .unit = kHour, .name = "hours"};
  }
  if (seconds > kMany * kMinute) {
    return {.begin = facts.begin, .unit = kMinute, .name = "minutes"};
  }
  return {.begin = facts.begin};
}

std::vector<Point> curve_of(const monitor::EventStore& store, const std::string& name) {
  return store.series(name, -kEver, kEver, kMaxPoints);
}

// The series from the events of rank 0; for a program without events, the series from its output.
std::vector<Point> reported_curve(const monitor::EventStore& store, const std::string& name) {
  const std::vector<Point> reported = curve_of(store, name);
  return reported.empty() ? curve_of(store, "output/" + name) : reported;
}

ChartLine line_of(const std::string& name,
                  const std::vector<Point>& points,
                  const Span& span,
                  double factor = 1) {
  ChartLine line;
  line.name = name;
  line.points.reserve(points.size());
  for (const Point& point : points) {
    line.points.emplace_back((point.time - span.begin) / span.unit, factor * point.mean);
  }
  return line;
}

// Reduces too many lines to three: their minimum, mean and maximum at each time. Lines have
// different times, so they are sorted into columns of equal width first. Minimum and maximum keep
// an outlier visible that the mean of many GPUs would hide.
std::vector<ChartLine> gather(std::vector<ChartLine> lines) {
  if (lines.size() <= kMaxLines) {
    return lines;
  }
  double from = kEver;
  double to = -kEver;
  for (const ChartLine& line : lines) {
    for (const auto& [x, y] : line.points) {
      from = std::min(from, x);
      to = std::max(to, x);
    }
  }
  constexpr size_t kColumns = 100;
  struct Column {
    double sum = 0;
    int count = 0;
    double low = kEver;
    double high = -kEver;
  };
  std::vector<Column> columns(kColumns);
  const double width = std::max(1e-9, (to - from) / static_cast<double>(kColumns));
  for (const ChartLine& line : lines) {
    for (const auto& [x, y] : line.points) {
      if (std::isfinite(y)) {
        Column& column = columns[std::min(kColumns - 1, static_cast<size_t>((x - from) / width))];
        column.sum += y;
        ++column.count;
        column.low = std::min(column.low, y);
        column.high = std::max(column.high, y);
      }
    }
  }
  std::vector<ChartLine> three(3);
  three[0].name = "minimum";
  three[1].name = "mean";
  three[2].name = "maximum";
  for (size_t i = 0; i < kColumns; ++i) {
    const Column& column = columns[i];
    if (column.count > 0) {
      const double x = from + (static_cast<double>(i) + 0.5) * width;
      three[0].points.emplace_back(x, column.low);
      three[1].points.emplace_back(x, column.sum / column.count);
      three[2].points.emplace_back(x, column.high);
    }
  }
  return three;
}

Chart loss_chart(const monitor::EventStore& store, const Span& span) {
  Chart chart;
  chart.title = "Loss";
  const auto training = reported_curve(store, "loss");
  if (!training.empty()) {
    chart.lines.push_back(line_of("training", training, span));
  }
  const auto evaluations = curve_of(store, "evaluation/loss");
  if (!evaluations.empty()) {
    chart.lines.push_back(line_of("evaluation", evaluations, span));
    chart.lines.back().has_dots = true;
  }
  return chart;
}

Chart speed_chart(const monitor::EventStore& store, const Span& span) {
  Chart chart;
  chart.title = "Samples per second";
  chart.has_zero = true;
  const auto speed = reported_curve(store, "samples_per_second");
  if (!speed.empty()) {
    chart.lines.push_back(line_of("all workers", speed, span));
  }
  return chart;
}

Chart gpu_chart(const RunFacts& facts, const monitor::EventStore& store, const Span& span) {
  constexpr double kHundred = 100;
  Chart chart;
  chart.title = "GPU utilization";
  chart.has_zero = true;
  chart.y_label = "percent";
  for (const monitor::NodeView& node : facts.run.nodes) {
    for (const contract::GpuSample& gpu : node.sample.gpus) {
      const auto points =
          curve_of(store, fmt::format("node/{}/gpu/{}/utilisation", node.sample.node, gpu.index));
      if (!points.empty()) {
        chart.lines.push_back(line_of(facts.run.nodes.size() < 2
                                          ? fmt::format("GPU {}", gpu.index)
                                          : fmt::format("{}, GPU {}", node.sample.host, gpu.index),
                                      points,
                                      span,
                                      kHundred));
      }
    }
  }
  chart.lines = gather(std::move(chart.lines));
  return chart;
}

Chart core_chart(const RunFacts& facts, const monitor::EventStore& store, const Span& span) {
  Chart chart;
  chart.title = "Busy cores per worker";
  chart.has_zero = true;
  for (const monitor::RankView& rank : facts.run.ranks) {
    const auto points = curve_of(store, fmt::format("rank/{}/cores", rank.rank));
    if (!points.empty()) {
      chart.lines.push_back(line_of(fmt::format("rank {}", rank.rank), points, span));
    }
  }
  chart.lines = gather(std::move(chart.lines));
  return chart;
}

// Shares of the time that was reported between two points. The parts are series of the same events,
// so they are merged at the same points and have equal times; a point is found in `sums` by its
// exact time. A program that reports a part only in some events breaks this, and its shares are
// then relative to fewer parts.
Chart split_chart(const monitor::EventStore& store, const Span& span) {
  constexpr double kHundred = 100;
  Chart chart;
  chart.title = "Time breakdown of rank 0";
  chart.has_zero = true;
  chart.y_label = "percent";
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"data", "data_seconds"},
      {"compute", "compute_seconds"},
      {"exchange", "exchange_seconds"},
      {"update", "update_seconds"},
      {"checkpoint", "checkpoint_seconds"}};
  std::map<double, double> sums;  // by time; an event reports all parts together
  for (const auto& [name, series] : parts) {
    for (const Point& point : curve_of(store, series)) {
      sums[point.time] += point.mean;
    }
  }
  for (const auto& [name, series] : parts) {
    ChartLine line = {};
    line.name = name;
    for (const Point& point : curve_of(store, series)) {
      if (sums[point.time] > 0) {
        line.points.emplace_back((point.time - span.begin) / span.unit,
                                 kHundred * point.mean / sums[point.time]);
      }
    }
    if (!line.points.empty()) {
      chart.lines.push_back(std::move(line));
    }
  }
  return chart;
}

}  // namespace

// Charts without data are removed, so a run without GPUs or without the library has a shorter page
// instead of empty frames.
std::vector<Chart> make_charts(const RunFacts& facts, const monitor::EventStore& store) {
  const Span span = span_of(facts);
  std::vector<Chart> charts = {loss_chart(store, span),
                               speed_chart(store, span),
                               gpu_chart(facts, store, span),
                               core_chart(facts, store, span),
                               split_chart(store, span)};
  std::erase_if(charts, [](const Chart& chart) { return chart.lines.empty(); });
  for (Chart& chart : charts) {
    chart.x_label = fmt::format("{} since the start", span.name);
  }
  return charts;
}

}  // namespace lockstep::report
