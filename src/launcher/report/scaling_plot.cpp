// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/scaling_plot.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <utility>

#include "launcher/report/markup.h"
#include "launcher/report/scaling_text.h"
#include "launcher/report/svg_chart.h"

namespace lockstep::report {
namespace {

using ValueOf = std::function<std::optional<double>(const ScalingSize&)>;

std::vector<std::pair<double, double>> points_of(const std::vector<ScalingSize>& sizes,
                                                 const ValueOf& value_of) {
  std::vector<std::pair<double, double>> points;
  points.reserve(sizes.size());
  for (const ScalingSize& size : sizes) {
    if (const auto value = value_of(size)) {
      points.emplace_back(size.workers, *value);
    }
  }
  return points;
}

// Starts at the largest measured size, so that the line continues the measurements.
std::vector<std::pair<double, double>> model_points(const ScalingCurve& curve,
                                                    const ValueOf& value_of) {
  std::vector<std::pair<double, double>> points = points_of({curve.measured.back()}, value_of);
  for (const auto& point : points_of(curve.predicted, value_of)) {
    if (points.empty() || point.first > points.front().first) {
      points.push_back(point);
    }
  }
  return points;
}

// A curve and its model have the same colour, so the colour advances with each curve, not with each
// line.
void add_lines(Chart& chart, const Scaling& scaling, const ValueOf& value_of, bool has_model) {
  int colour = 0;
  for (const StrategyScaling& strategy : scaling.strategies) {
    for (const ScalingCurve& curve : strategy.curves) {
      auto points = points_of(curve.measured, value_of);
      if (!points.empty()) {
        chart.lines.push_back({.name = title_of(strategy, curve),
                               .points = std::move(points),
                               .has_dots = true,
                               .colour = colour});
      }
      if (has_model && !curve.predicted.empty()) {
        chart.lines.push_back({.name = strategy.strategy + ", model",
                               .points = model_points(curve, value_of),
                               .is_dashed = true,
                               .colour = colour});
      }
      ++colour;
    }
  }
}

// Ideal scaling: the best speed per worker of the smallest sizes, times the workers. One line for
// all strategies: a strategy that is slow on few workers must not look ideal because its own start
// was slow.
void add_ideal(Chart& chart, const Scaling& scaling) {
  double per_worker = 0;
  double smallest = 0;
  double largest = 0;
  for (const StrategyScaling& strategy : scaling.strategies) {
    for (const ScalingCurve& curve : strategy.curves) {
      const ScalingSize& first = curve.measured.front();
      const ScalingSize& last =
          curve.predicted.empty() ? curve.measured.back() : curve.predicted.back();
      per_worker = std::max(per_worker, first.samples_per_second / first.workers);
      smallest = smallest == 0 ? first.workers : std::min<double>(smallest, first.workers);
      largest = std::max<double>(largest, last.workers);
    }
  }
  constexpr int kGrey = 7;
  chart.lines.push_back(
      {.name = "ideal",
       .points = {{smallest, smallest * per_worker}, {largest, largest * per_worker}},
       .is_dashed = true,
       .colour = kGrey});
}

// Both axes are logarithmic, so ideal scaling is a straight line, and equal ratios have equal
// distances.
Chart throughput_chart(const Scaling& scaling) {
  Chart chart{.title = "Throughput",
              .x_label = "workers",
              .y_label = "samples per second",
              .is_x_log = true,
              .is_y_log = true};
  add_lines(
      chart, scaling, [](const ScalingSize& size) { return size.samples_per_second; }, true);
  add_ideal(chart, scaling);
  return chart;
}

// Without lines if no run has the value.
std::string draw_share(const Scaling& scaling,
                       const std::pair<const char*, const char*>& title_and_unit,
                       const ValueOf& value_of,
                       bool has_model) {
  Chart chart{.title = title_and_unit.first,
              .x_label = "workers",
              .y_label = title_and_unit.second,
              .is_x_log = true,
              .has_zero = true};
  add_lines(chart, scaling, value_of, has_model);
  return chart.lines.empty() ? "" : draw_svg(chart);
}

}  // namespace

std::string scaling_svg(const Scaling& scaling) {
  return draw_svg(throughput_chart(scaling));
}

std::string scaling_page(const Scaling& scaling) {
  constexpr double kPercent = 100;
  std::string charts = scaling_svg(scaling);
  charts += draw_share(
      scaling,
      {"Efficiency", "percent of ideal"},
      [](const ScalingSize& size) { return kPercent * size.efficiency; },
      true);
  charts += draw_share(
      scaling,
      {"Exposed communication", "percent of a step"},
      [](const ScalingSize& size) {
        return size.exchange_share ? std::optional(kPercent * *size.exchange_share) : std::nullopt;
      },
      false);
  charts += draw_share(
      scaling,
      {"Energy", "joules per sample, all GPUs"},
      [](const ScalingSize& size) { return size.joules_per_sample; },
      false);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Scaling</title>\n"
      "<style>:root{{color-scheme:light dark}}"
      "body{{font:14px/1.45 system-ui,sans-serif;margin:16px;max-width:900px}}"
      "pre{{overflow:auto}}svg{{display:block;margin:16px 0}}</style>\n</head>\n<body>\n"
      "<h1>Scaling</h1>\n{}<pre>{}</pre>\n</body>\n</html>\n",
      charts,
      escape_markup(scaling_table(scaling)));
}

}  // namespace lockstep::report
