// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::report {

struct ChartLine {
  std::string name = {};
  std::vector<std::pair<double, double>> points = {};  // x, y; NaN: a gap
  bool is_dashed = false;
  bool has_dots = false;
  int colour = -1;  // lines of one number have one colour; -1: its place among the lines
};

struct Chart {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<ChartLine> lines = {};
  bool is_x_log = false;
  bool is_y_log = false;
  bool has_zero = false;  // the y axis shows 0, as of amounts and shares
};

// One <svg> element that stands alone as a file or within a page, with title, axes and legend, for
// dark and light surroundings. Without any point it says so.
std::string draw_svg(const Chart& chart);

}  // namespace lockstep::report
