// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/stragglers.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace lockstep::monitor {
namespace {

constexpr double kDeviations = 3;
constexpr double kLeastShare = 0.1;

// The lower median: with two ranks it is the faster one, so that the slower one can be detected.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

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
  const double usual = median(times);
  for (double& time : times) {
    time = std::abs(time - usual);
  }
  const double bound = usual + std::max(kDeviations * median(times), kLeastShare * usual);
  for (RankView& rank : ranks) {
    if (rank.own_seconds && !rank.has_ended && *rank.own_seconds > bound) {
      rank.is_straggler = true;
      rank.why_straggler =
          fmt::format("slow: own step time {:.3g} s, median {:.3g} s", *rank.own_seconds, usual);
    }
  }
}

}  // namespace

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
