// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/stragglers.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "common/base/median.h"

namespace lockstep::monitor {
namespace {

// Median and median absolute deviation instead of mean and standard deviation: a straggler would
// move both of the latter towards itself and hide. If all ranks are equally fast, the deviation is
// close to 0 and every jitter would be an outlier; the minimum share of the median prevents that.
constexpr double kDeviations = 3;
constexpr double kMinShare = 0.1;

void mark_slow(std::span<RankView> ranks) {
  std::vector<double> times;
  for (const RankView& rank : ranks) {
    if (rank.own_seconds && !rank.has_ended) {
      times.push_back(*rank.own_seconds);
    }
  }
  if (times.size() < 2) {
    return;
  }
  // With two ranks it is the faster one, so that the slower one can be detected.
  const double usual = lower_median(times);
  for (double& time : times) {
    time = std::abs(time - usual);
  }
  const double bound = usual + std::max(kDeviations * lower_median(times), kMinShare * usual);
  for (RankView& rank : ranks) {
    if (rank.own_seconds && !rank.has_ended && *rank.own_seconds > bound) {
      rank.is_straggler = true;
      rank.why_straggler =
          fmt::format("slow: own step time {:.3g} s, median {:.3g} s", *rank.own_seconds, usual);
    }
  }
}

}  // namespace

// The lag overrides the slow time: both can hold, and the number of steps is the more serious
// finding. A rank without a step is not behind, because it may be starting.
void mark_stragglers(std::span<RankView> ranks, int64_t usual_lag) {
  int64_t front = -1;
  for (const RankView& rank : ranks) {
    front = std::max(front, rank.step);
  }
  mark_slow(ranks);
  for (RankView& rank : ranks) {
    rank.steps_behind = rank.step < 0 ? 0 : front - rank.step;
    if (!rank.has_ended && rank.steps_behind > usual_lag) {
      rank.is_straggler = true;
      rank.why_straggler = fmt::format("behind by {} steps", rank.steps_behind);
    }
  }
}

}  // namespace lockstep::monitor
