// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <span>

#include "launcher/report/chart_axis.h"
#include "launcher/report/markup.h"

// Layout, in pixels of the view box:
//
//   kTop           title
//   kPlotHeight    plot, from kLeft to kWidth - kRight
//   kBelow         ticks and the name of the x axis
//   n * kLegendRow legend
//
// The SVG is also written as a file, so styles are inside of it. All rules begin with .ls-chart,
// because several charts on one page share one style scope.
namespace lockstep::report {
namespace {

constexpr double kWidth = 760;
constexpr double kPlotHeight = 300;
constexpr double kLeft = 74;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBelow = 52;  // ticks and the name of the axis
constexpr double kLegendRow = 20;
constexpr int kColours = 8;

// The colours of web/, so that a run looks the same in the dashboard and in reports.
constexpr std::array<const char*, kColours> kOnLight = {
    "#1f5fbf", "#c2410c", "#15803d", "#7e22ce", "#0e7490", "#be185d", "#854d0e", "#475569"};
constexpr std::array<const char*, kColours> kOnDark = {
    "#6ea8fe", "#ff9f5a", "#5bd68a", "#c79bff", "#4fd1e0", "#ff8ac0", "#e5c04d", "#a8b3c2"};

// Uses classes instead of CSS variables, which some SVG viewers do not support.
std::string palette(const char* text, const char* back, std::span<const char* const> colours) {
  std::string rules = fmt::format(".ls-chart{{color:{}}}.ls-chart .back{{fill:{}}}", text, back);
  for (size_t i = 0; i < colours.size(); ++i) {
    fmt::format_to(std::back_inserter(rules),
                   ".ls-chart .stroke{0}{{stroke:{1}}}.ls-chart .fill{0}{{fill:{1}}}",
                   i,
                   colours[i]);
  }
  return rules;
}

std::string style() {
  return fmt::format(
      "<style>{}@media (prefers-color-scheme:dark){{{}}}"
      ".ls-chart text{{fill:currentColor;font:12px system-ui,sans-serif}}"
      ".ls-chart .title{{font-size:15px;font-weight:600}}"
      ".ls-chart .grid{{stroke:currentColor;stroke-opacity:.15}}"
      ".ls-chart .axis{{stroke:currentColor;stroke-opacity:.6}}"
      ".ls-chart .line{{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}}"
      ".ls-chart .dashed{{stroke-dasharray:6 5}}</style>\n",
      palette("#1b2028", "#ffffff", kOnLight),
      palette("#e6e9ee", "#1a1f26", kOnDark));
}

struct Frame {
  Axis x;
  Axis y;

  double across(double value) const {
    return kLeft + x.share_of(value) * (kWidth - kLeft - kRight);
  }
  double down(double value) const { return kTop + (1 - y.share_of(value)) * kPlotHeight; }
  bool shows(const std::pair<double, double>& point) const {
    return std::isfinite(x.share_of(point.first)) && std::isfinite(y.share_of(point.second));
  }
};

// A point that is a gap in one direction must not extend the axis of the other one.
Frame frame_of(const Chart& chart) {
  std::vector<double> xs;
  std::vector<double> ys;
  for (const ChartLine& line : chart.lines) {
    xs.reserve(xs.size() + line.points.size());
    ys.reserve(ys.size() + line.points.size());
    for (const auto& [x, y] : line.points) {
      const bool is_gap = !std::isfinite(x) || !std::isfinite(y);
      xs.push_back(is_gap ? NAN : x);
      ys.push_back(is_gap ? NAN : y);
    }
  }
  if (chart.has_zero && !ys.empty()) {
    ys.push_back(0);
  }
  return {.x = make_axis(xs, chart.is_x_log), .y = make_axis(ys, chart.is_y_log)};
}

void draw_text(
    std::string& out, double x, double y, const char* attributes, const std::string& text) {
  fmt::format_to(std::back_inserter(out),
                 "<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n",
                 x,
                 y,
                 attributes,
                 escape_markup(text));
}

void draw_axes(std::string& out, const Chart& chart, const Frame& frame) {
  constexpr double kGap = 8;
  constexpr double kLetter = 4;  // half of the height of a character
  constexpr double kBelowTicks = 18;
  constexpr double kBelowName = 40;
  const double bottom = kTop + kPlotHeight;
  const auto rule = [&out](const char* kind, double x1, double y1, double x2, double y2) {
    fmt::format_to(std::back_inserter(out),
                   "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                   kind,
                   x1,
                   y1,
                   x2,
                   y2);
  };
  for (const double tick : frame.y.ticks) {
    const double y = frame.down(tick);
    rule("grid", kLeft, y, kWidth - kRight, y);
    draw_text(out, kLeft - kGap, y + kLetter, "text-anchor=\"end\"", tick_text(tick));
  }
  for (const double tick : frame.x.ticks) {
    const double x = frame.across(tick);
    rule("grid", x, kTop, x, bottom);
    draw_text(out, x, bottom + kBelowTicks, "text-anchor=\"middle\"", tick_text(tick));
  }
  rule("axis", kLeft, bottom, kWidth - kRight, bottom);
  rule("axis", kLeft, kTop, kLeft, bottom);
  const double middle = (kLeft + kWidth - kRight) / 2;
  draw_text(out, middle, bottom + kBelowName, "text-anchor=\"middle\"", chart.x_label);
  fmt::format_to(std::back_inserter(out),
                 "<text transform=\"translate(16 {:.1f}) rotate(-90)\" "
                 "text-anchor=\"middle\">{}</text>\n",
                 kTop + kPlotHeight / 2,
                 escape_markup(chart.y_label));
}

int colour_of(const ChartLine& line, size_t place) {
  return (line.colour < 0 ? static_cast<int>(place) : line.colour) % kColours;
}

// Draws the dots of a line that has them, and of points between gaps, which a stroke cannot show.
void draw_dots(std::string& out, const ChartLine& line, const Frame& frame, int colour) {
  const auto shows = [&](size_t i) {
    return i < line.points.size() && frame.shows(line.points[i]);
  };
  for (size_t i = 0; i < line.points.size(); ++i) {
    const bool is_alone = !shows(i + 1) && (i == 0 || !shows(i - 1));
    if (shows(i) && (line.has_dots || is_alone)) {
      const auto& [x, y] = line.points[i];
      fmt::format_to(std::back_inserter(out),
                     "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" class=\"fill{}\">"
                     "<title>{}: {:.6g}, {:.6g}</title></circle>\n",
                     frame.across(x),
                     frame.down(y),
                     colour,
                     escape_markup(line.name),
                     x,
                     y);
    }
  }
}

// A gap ends the path; the next point begins a new one with M.
void draw_line(std::string& out, const ChartLine& line, const Frame& frame, int colour) {
  std::string path;
  bool is_drawing = false;
  for (const auto& point : line.points) {
    const bool is_shown = frame.shows(point);
    if (is_shown) {
      fmt::format_to(std::back_inserter(path),
                     "{}{:.1f} {:.1f}",
                     is_drawing ? "L" : "M",
                     frame.across(point.first),
                     frame.down(point.second));
    }
    is_drawing = is_shown;
  }
  if (!path.empty()) {
    fmt::format_to(std::back_inserter(out),
                   "<path class=\"line stroke{}{}\" d=\"{}\"/>\n",
                   colour,
                   line.is_dashed ? " dashed" : "",
                   path);
  }
  draw_dots(out, line, frame, colour);
}

// Draws the entries in rows. Returns their height. Text widths are not known without a font, so
// seven pixels per byte are assumed: wide enough for twelve-pixel text, and only the distance of
// the entries depends on it.
double draw_legend(std::string& out, const Chart& chart) {
  constexpr double kLetters = 7;  // approximate width of a character
  constexpr double kSample = 24;
  constexpr double kGap = 6;
  double x = kLeft;
  double y = kTop + kPlotHeight + kBelow + kLegendRow / 2;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    const double width =
        kSample + kGap + kLetters * static_cast<double>(line.name.size()) + kSample;
    if (x > kLeft && x + width > kWidth) {
      x = kLeft;
      y += kLegendRow;
    }
    fmt::format_to(std::back_inserter(out),
                   "<path class=\"line stroke{}{}\" d=\"M{:.1f} {:.1f}h{}\"/>\n",
                   colour_of(line, i),
                   line.is_dashed ? " dashed" : "",
                   x,
                   y,
                   kSample);
    draw_text(out, x + kSample + kGap, y + 4, "class=\"name\"", line.name);
    x += width;
  }
  return y + kLegendRow / 2 - (kTop + kPlotHeight + kBelow);
}

bool is_empty(const Chart& chart, const Frame& frame) {
  return std::ranges::none_of(chart.lines, [&](const ChartLine& line) {
    return std::ranges::any_of(line.points, [&](const auto& point) { return frame.shows(point); });
  });
}

}  // namespace

// The height depends on the legend, so the body is drawn before the opening tag.
std::string draw_svg(const Chart& chart) {
  const Frame frame = frame_of(chart);
  std::string body;
  draw_text(body, kLeft, kTop - 16, "class=\"title\"", chart.title);
  if (is_empty(chart, frame)) {
    draw_text(body, kWidth / 2, kTop + kPlotHeight / 2, "text-anchor=\"middle\"", "no data");
  } else {
    draw_axes(body, chart, frame);
  }
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    draw_line(body, chart.lines[i], frame, colour_of(chart.lines[i], i));
  }
  const double height = kTop + kPlotHeight + kBelow + draw_legend(body, chart);
  return fmt::format(
      "<svg class=\"ls-chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" style=\"max-width:100%;height:auto\" role=\"img\" "
      "aria-label=\"{2}\">\n{3}<rect width=\"100%\" height=\"100%\" "
      "class=\"back\"/>\n{4}</svg>\n",
      kWidth,
      height,
      escape_markup(chart.title),
      style(),
      body);
}

}  // namespace lockstep::report
