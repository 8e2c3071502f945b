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
  using Clock = std::chrono::steady_clock;

  enum Phase { Data, ForwardBackward, Step, Exchange, Checkpoint };
  static constexpr size_t kPhases = 5;

  // From here on time belongs to `phase`.
  void enter(Phase phase) { turn(static_cast<int>(phase)); }

  // From here on it belongs to none.
  void leave() { turn(-1); }

  // Seconds spent in a phase since the last call for it.
  double take_seconds(Phase phase) {
    return std::exchange(untold_[static_cast<size_t>(phase)], {}).count();
  }

  // Of the time of `from` told by take_seconds(), this much was waiting for other workers.
  void count_exchange(Phase from, Clock::duration time) {
    untold_[static_cast<size_t>(from)] -= time;
    untold_[Exchange] += time;
  }

  // Time that was spent elsewhere than between enter() and leave().
  void add(Phase phase, Clock::duration time) { untold_[static_cast<size_t>(phase)] += time; }

  // "data 0.10 ms, forward and backward 3.20 ms, step 0.40 ms": means of a step since the last
  // call; `steps` went by since.
  std::string take(int64_t steps);

 private:
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
  std::array<Clock::duration, kPhases> spent_ = {};
  std::array<std::chrono::duration<double>, kPhases> untold_ = {};
};

}  // namespace lockstep::train
