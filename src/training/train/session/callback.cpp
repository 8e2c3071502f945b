// SPDX-License-Identifier: Apache-2.0
#include "lockstep/callback.h"

#include <bit>
#include <cstdio>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep {

void EarlyStop::on_evaluation(const TrainState& state) {
  if (!state.evaluation) {
    return;
  }
  // A loss of NaN is never lower, so that a diverged training stops as well.
  if (state.evaluation->loss < best_) {
    best_ = state.evaluation->loss;
    waited_ = 0;
  } else {
    ++waited_;
  }
}

// The loss is stored as its bits so that a resumed run compares with exactly the same number.
std::string EarlyStop::state() const {
  return fmt::format("{} {:016x}", waited_, std::bit_cast<uint64_t>(best_));
}

void EarlyStop::restore(const std::string& state) {
  unsigned long bits = 0;
  if (std::sscanf(state.c_str(), "%d %lx", &waited_, &bits) != 2) {
    throw Error(ExitCode::Io,
                fmt::format("cannot resume early stopping: invalid state '{}'", state));
  }
  best_ = std::bit_cast<double>(uint64_t{bits});
}

}  // namespace lockstep
