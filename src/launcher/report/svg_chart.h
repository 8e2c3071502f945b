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
  int colour = -1;  // index of the colour; -1: the index of the line
};

struct Chart {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<ChartLine> lines = {};
  bool is_x_log = false;
  bool is_y_log = false;
  bool has_zero = false;  // the y axis includes 0, as for amounts and shares
};

// An <svg> element with title, axes and legend, for use as a file or within a page, in dark and
// light themes. A chart without points shows "no data".
std::string draw_svg(const Chart& chart);

}  // namespace lockstep::report
