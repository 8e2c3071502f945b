// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::bench {

// A line of the table: a figure of ours and the same of the peer's.
struct Row {
  std::string name;
  std::optional<double> ours;
  std::optional<double> theirs = std::nullopt;
  int digits = 1;  // behind the point
};

// Names, our figures, and, where there is a peer, its figures and ours divided by them.
std::string format_rows(const std::vector<Row>& rows, const std::string& peer = "");

double median(std::vector<double> values);

}  // namespace lockstep::bench
