// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace lockstep::train {

// Measures how the host spends the time of a step. GPU work counts in the phase in which the host
// waits for it.
class PhaseTimes {
 public:
  using Clock = std::chrono::steady_clock;

  enum Phase { Data, ForwardBackward, Step, Exchange, Checkpoint };
  static constexpr size_t kPhases = 5;

  // Ends the current phase, if any, and starts `phase`.
  void enter(Phase phase) { turn(static_cast<int>(phase)); }

  // Ends the current phase.
  void leave() { turn(-1); }

  // Returns the seconds spent in a phase since the last call for this phase.
  double take_seconds(Phase phase) {
    return std::exchange(unreported_[static_cast<size_t>(phase)], {}).count();
  }

  // Moves `time` from the phase `from` to Exchange: it was spent waiting for other workers. Affects
  // take_seconds() only.
  void count_exchange(Phase from, Clock::duration time) {
    unreported_[static_cast<size_t>(from)] -= time;
    unreported_[Exchange] += time;
  }

  // Adds time that was not spent between enter() and leave().
  void add(Phase phase, Clock::duration time) { unreported_[static_cast<size_t>(phase)] += time; }

  // Returns the mean times per step since the last call, during which `steps` steps were completed:
  // "data 0.10 ms, forward and backward 3.20 ms, step 0.40 ms".
  std::string take(int64_t steps);

 private:
  void turn(int phase) {
    const Clock::time_point now = Clock::now();
    if (phase_ >= 0) {
      spent_[static_cast<size_t>(phase_)] += now - since_;
      unreported_[static_cast<size_t>(phase_)] += now - since_;
    }
    phase_ = phase;
    since_ = now;
  }

  int phase_ = -1;
  Clock::time_point since_;
  std::array<Clock::duration, kPhases> spent_ = {};
  std::array<std::chrono::duration<double>, kPhases> unreported_ = {};
};

}  // namespace lockstep::train
