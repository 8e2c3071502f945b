// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/table_cells.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep::report {

std::string percent_cell(double share) {
  constexpr double kPercent = 100;
  return fmt::format("{:.{}f}%", share * kPercent, share * kPercent < 10 ? 1 : 0);
}

std::string number_cell(double value) {
  constexpr double kWhole = 100;
  return value >= kWhole ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string right_aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += fmt::format("{}{:>{}}", i == 0 ? "" : "  ", row[i], widths[i]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace lockstep::report
