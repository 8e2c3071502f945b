// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/step_sync_interval.h"

#include <algorithm>

namespace lockstep::train {
namespace {

constexpr double kSecondsBetween = 0.25;
constexpr std::chrono::seconds kWindow{1};
// Limits the delay of the next exchange if steps suddenly become slower.
constexpr int64_t kMaxSteps = 10000;

}  // namespace

// exchanges_ covers the last second, but always at least two exchanges, so that there is a pace
// even if one step takes longer. Doubling plus one lets the interval leave 1 and still limits the
// error after a burst.
int64_t StepSyncInterval::next(Clock::time_point now, int64_t step) {
  exchanges_.push_back({now, step});
  while (exchanges_.size() > 2 && now - exchanges_[1].time >= kWindow) {
    exchanges_.pop_front();
  }
  const double seconds = std::chrono::duration<double>(now - exchanges_.front().time).count();
  const auto steps = static_cast<double>(step - exchanges_.front().step);
  const double pace = seconds > 0 ? kSecondsBetween * steps / seconds : 1;
  steps_ = std::clamp(static_cast<int64_t>(std::min<double>(pace, kMaxSteps)),
                      int64_t{1},
                      std::min(2 * steps_ + 1, kMaxSteps));
  return steps_;
}

}  // namespace lockstep::train
