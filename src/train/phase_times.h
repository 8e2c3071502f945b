// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace lockstep::train {

// Where the time of a step goes, as this worker's program sees it: a GPU's own work counts where
// the program waits for it.
class PhaseTimes {
 public:
  enum Phase { Data, ForwardBackward, Step };

  // From here on time belongs to `phase`.
  void enter(Phase phase) { turn(static_cast<int>(phase)); }

  // From here on it belongs to none.
  void leave() { turn(-1); }

  // Seconds spent in a phase since the last call for it.
  double take_seconds(Phase phase) {
    return std::exchange(untold_[static_cast<size_t>(phase)], {}).count();
  }

  // "data 0.10 ms, forward and backward 3.20 ms, step 0.40 ms": means of a step since the last
  // call; `steps` went by since.
  std::string take(int64_t steps);

 private:
  using Clock = std::chrono::steady_clock;
  void turn(int phase) {
    const Clock::time_point now = Clock::now();
    if (phase_ >= 0) {
      spent_[static_cast<size_t>(phase_)] += now - since_;
      untold_[static_cast<size_t>(phase_)] += now - since_;
    }
    phase_ = phase;
    since_ = now;
  }

  int phase_ = -1;
  Clock::time_point since_;
  std::array<Clock::duration, 3> spent_ = {};
  std::array<std::chrono::duration<double>, 3> untold_ = {};
};

}  // namespace lockstep::train
