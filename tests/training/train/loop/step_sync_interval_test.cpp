// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/step_sync_interval.h"

#include <gmock/gmock.h>
#include <vector>

namespace lockstep::train {
namespace {

// Returns the steps with a status exchange if step i is completed after `times`[i - 1] seconds.
std::vector<int64_t> exchange_steps(const std::vector<double>& times) {
  StepSyncInterval interval;
  std::vector<int64_t> steps;
  int64_t next = 1;
  for (size_t i = 0; i < times.size(); ++i) {
    const auto step = static_cast<int64_t>(i) + 1;
    if (step >= next) {
      steps.push_back(step);
      const StepSyncInterval::Clock::time_point time(
          std::chrono::duration_cast<StepSyncInterval::Clock::duration>(
              std::chrono::duration<double>(times[i])));
      next = step + interval.next(time, step);
    }
  }
  return steps;
}

double longest_gap(const std::vector<double>& times, double after) {
  double longest = 0;
  double last = 0;
  for (const int64_t step : exchange_steps(times)) {
    const double time = times[static_cast<size_t>(step) - 1];
    longest = time > after ? std::max(longest, time - last) : longest;
    last = time;
  }
  return longest;
}

TEST(StepSyncInterval, IsFourTimesASecondWhateverAStepTakes) {
  for (const double step : {0.0003, 0.01, 0.1}) {
    std::vector<double> times;
    for (double time = 8; time < 20; time += step) {  // the first step took long
      times.push_back(time);
    }
    const auto all = exchange_steps(times);

    EXPECT_NEAR(static_cast<double>(all.size()), 48, 16) << step;
    EXPECT_LT(longest_gap(times, 8.5), 0.6) << step;
  }
}

TEST(StepSyncInterval, IsEveryStepWhereStepsAreSlow) {
  EXPECT_THAT(exchange_steps({1, 2, 3, 4, 5}), ::testing::ElementsAre(1, 2, 3, 4, 5));
}

// Eight steps at once, then the host waits for a GPU that needs 36 ms for each.
TEST(StepSyncInterval, DoesNotTakeABurstForTheRule) {
  std::vector<double> times;
  for (double time = 5; time < 25; time += 8 * 0.036) {
    for (int i = 0; i < 8; ++i) {
      times.push_back(time + i * 0.0005);
    }
  }

  EXPECT_LT(longest_gap(times, 6), 1);
}

TEST(StepSyncInterval, FollowsStepsThatBecomeSlower) {
  std::vector<double> times;
  for (double time = 0; time < 5; time += 0.001) {
    times.push_back(time);
  }
  for (double time = 5; time < 15; time += 0.05) {
    times.push_back(time);
  }

  // The previous exchange set 250 steps; afterwards the pace is known.
  EXPECT_LT(longest_gap(times, 14), 0.5);
}

}  // namespace
}  // namespace lockstep::train
