// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/talk_pace.h"

#include <algorithm>

namespace lockstep::train {
namespace {

constexpr double kSecondsBetween = 0.25;
constexpr std::chrono::seconds kWindow{1};
constexpr int64_t kMostSteps = 10000;

}  // namespace

int64_t TalkPace::next(Clock::time_point now, int64_t step) {
  talks_.push_back({now, step});
  while (talks_.size() > 2 && now - talks_[1].time >= kWindow) {
    talks_.pop_front();
  }
  const double seconds = std::chrono::duration<double>(now - talks_.front().time).count();
  const auto steps = static_cast<double>(step - talks_.front().step);
  const double pace = seconds > 0 ? kSecondsBetween * steps / seconds : 1;
  steps_ = std::clamp(static_cast<int64_t>(std::min<double>(pace, kMostSteps)),
                      int64_t{1},
                      std::min(2 * steps_ + 1, kMostSteps));
  return steps_;
}

}  // namespace lockstep::train
