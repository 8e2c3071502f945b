// SPDX-License-Identifier: Apache-2.0
#include "training/comm/format_ranks.h"

#include <fmt/format.h>

namespace lockstep::comm {

std::string format_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    text += first == 0 ? "" : ", ";
    text += std::to_string(ranks[first]);
    if (last > first) {
      // Two consecutive ranks are written as "1, 2", not as "1-2".
      text += fmt::format("{}{}", last == first + 1 ? ", " : "-", ranks[last]);
    }
    first = last + 1;
  }
  return text;
}

}  // namespace lockstep::comm
