// SPDX-License-Identifier: Apache-2.0
#include "common/base/random.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace lockstep {

// Not std::shuffle: its use of the generator differs between standard libraries, and the order of
// samples is part of the format of a run.
std::vector<int64_t> permutation(int64_t size, Random random) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  for (size_t last = order.size(); last > 1; --last) {
    std::swap(order[last - 1], order[random.below(last)]);
  }
  return order;
}

}  // namespace lockstep
