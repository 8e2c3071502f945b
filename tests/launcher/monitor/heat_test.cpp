// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/heat.h"

#include <gmock/gmock.h>

namespace lockstep::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Point> curve(std::vector<double> values) {
  std::vector<Point> points;
  for (const double value : values) {
    const auto at = static_cast<double>(points.size());
    points.push_back({.time = at, .step = 0, .mean = value, .low = value, .high = value});
  }
  return points;
}

TEST(HeatOfRanks, IsAgainstTheMedianOfEachColumn) {
  const Heat heat = make_heat({0, 1, 2}, {curve({1, 2}), curve({1, 2}), curve({1.5, 3})}, 100);

  EXPECT_THAT(heat.percents[0], ElementsAre(100, 100));
  EXPECT_THAT(heat.percents[2], ElementsAre(150, 150));
  EXPECT_THAT(heat.slowest, ElementsAre(Heat::Slow{.rank = 2, .percent = 150}));
  EXPECT_THAT(heat.times, ElementsAre(0.5, 1));
}

TEST(HeatOfRanks, HasNoMoreColumnsThanAsked) {
  const std::vector<Point> line = curve(std::vector<double>(1000, 0.2));

  EXPECT_EQ(make_heat({0, 1}, {line, line}, 120).times.size(), 120U);
}

TEST(HeatOfRanks, LeavesUnreportedValuesEmpty) {
  const Heat heat = make_heat({0, 1}, {curve({1, 1}), {}}, 100);

  EXPECT_THAT(heat.percents[1], ElementsAre(std::nullopt, std::nullopt));
  EXPECT_THAT(heat.slowest, IsEmpty());
  EXPECT_THAT(make_heat({0, 1}, {{}, {}}, 100).times, IsEmpty());
}

}  // namespace
}  // namespace lockstep::monitor
