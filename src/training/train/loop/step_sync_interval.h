// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

namespace lockstep::train {

// Determines the number of steps until the next status exchange, so that there are about four per
// second. The host completes steps in bursts if it runs ahead of a GPU or waits for batches. The
// pace is therefore the mean over the last second, and the number of steps at most doubles each
// time.
class StepSyncInterval {
 public:
  using Clock = std::chrono::steady_clock;

  // Call after a status exchange that followed `step`. Returns at least 1.
  int64_t next(Clock::time_point now, int64_t step);

 private:
  struct Exchange {
    Clock::time_point time;
    int64_t step;
  };

  std::deque<Exchange> exchanges_;  // of the last second, and the one before
  int64_t steps_ = 0;
};

}  // namespace lockstep::train
