// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/phase_times.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep::train {

// As wall_clock_breakdown of DeepSpeed: means per step of this worker, in milliseconds.
std::string PhaseTimes::take(int64_t steps) {
  const auto mean = [&](Phase phase) {
    return std::chrono::duration<double, std::milli>(spent_[phase]).count() /
           static_cast<double>(std::max<int64_t>(1, steps));
  };
  std::string text = fmt::format("data {:.2f} ms, forward and backward {:.2f} ms, step {:.2f} ms",
                                 mean(Data),
                                 mean(ForwardBackward),
                                 mean(Step));
  spent_ = {};
  return text;
}

}  // namespace lockstep::train
