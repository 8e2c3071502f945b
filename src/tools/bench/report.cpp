// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"

namespace lockstep::bench {
namespace {

// A result that is missing or not finite is shown as "-", never as 0: a part that was not measured
// must not look fast.
std::string format_figure(const std::optional<double>& figure, int digits) {
  if (!figure || !std::isfinite(*figure)) {
    return "-";
  }
  return digits == 0 ? format_count(std::llround(*figure))
                     : fmt::format("{:.{}f}", *figure, digits);
}

}  // namespace

// The ratio is lockstep / peer for every row: larger is better for rates, smaller for times.
std::string format_rows(const std::vector<Row>& rows, const std::string& peer) {
  std::vector<std::vector<std::string>> cells = {{"", "lockstep"}};
  if (!peer.empty()) {
    cells.front().insert(cells.front().end(), {peer, "ratio"});
  }
  for (const Row& row : rows) {
    cells.push_back({row.name, format_figure(row.ours, row.digits)});
    if (!peer.empty()) {
      const bool has_both = row.ours && row.theirs && *row.theirs != 0;
      cells.back().push_back(format_figure(row.theirs, row.digits));
      cells.back().push_back(has_both ? fmt::format("{:.2f}", *row.ours / *row.theirs) : "-");
    }
  }
  return format_table(cells);
}

}  // namespace lockstep::bench
