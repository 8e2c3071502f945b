// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::bench {

// A row of the table: a result of lockstep and of the peer.
struct Row {
  std::string name;
  std::optional<double> ours;
  std::optional<double> theirs = std::nullopt;
  int digits = 1;  // after the decimal point
};

// A table of names, results of lockstep and, with a peer, its results and the ratio.
std::string format_rows(const std::vector<Row>& rows, const std::string& peer = "");

}  // namespace lockstep::bench
