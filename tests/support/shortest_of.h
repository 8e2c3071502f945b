// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace lockstep::testing {

// The shortest duration of several calls. Other load on the machine prolongs some of them, but
// hardly ever all; a fault prolongs all.
template <typename Call>
std::chrono::steady_clock::duration shortest_of(int calls, const Call& call) {
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    shortest = std::min(shortest, std::chrono::steady_clock::now() - begin);
  }
  return shortest;
}

}  // namespace lockstep::testing
