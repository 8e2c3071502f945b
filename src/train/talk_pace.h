// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

namespace lockstep::train {

// After how many steps the gang talks again, so that it does about four times a second. Steps come
// in bursts where the host runs ahead of a GPU or waits for batches, so a second of them counts,
// and the number grows by twofold at most.
class TalkPace {
 public:
  using Clock = std::chrono::steady_clock;

  // After a talk behind `step`; at least 1.
  int64_t next(Clock::time_point now, int64_t step);

 private:
  struct Talk {
    Clock::time_point time;
    int64_t step;
  };

  std::deque<Talk> talks_;  // of the last second, and one before
  int64_t steps_ = 0;
};

}  // namespace lockstep::train
