// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/series.h"

#include <cmath>
#include <gmock/gmock.h>
#include <limits>

namespace lockstep::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kEver = std::numeric_limits<double>::infinity();

TEST(Series, GivesBackWhatItWasGivenWhileItIsShort) {
  Series series(8);
  series.add(1, 10, 0.5);
  series.add(2, 20, 0.25);

  EXPECT_THAT(series.points(0, kEver, 100),
              ElementsAre(Point{1, 10, 0.5, 0.5, 0.5}, Point{2, 20, 0.25, 0.25, 0.25}));
}

TEST(Series, HalvesItsResolutionWhenItIsFull) {
  Series series(4);
  for (int i = 1; i <= 5; ++i) {
    series.add(i, i, i);
  }

  EXPECT_THAT(series.points(0, kEver, 100),
              ElementsAre(Point{2, 2, 1.5, 1, 2}, Point{4, 4, 3.5, 3, 4}, Point{5, 5, 5, 5, 5}));
}

TEST(Series, StaysBoundedAndKeepsMeanAndPeaks) {
  constexpr int kMany = 1000000;
  Series series(1024);
  for (int i = 0; i < kMany; ++i) {
    series.add(i, i, i == 777777 ? 1e6 : 1);
  }

  EXPECT_LE(series.size(), 1024U);
  EXPECT_GE(series.size(), 511U);
  EXPECT_EQ(series.count(), kMany);
  const auto all = series.points(0, kEver, 1);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_DOUBLE_EQ(all[0].high, 1e6);
  EXPECT_DOUBLE_EQ(all[0].low, 1);
  EXPECT_NEAR(all[0].mean, 1.999999, 1e-6);
  EXPECT_EQ(all[0].step, kMany - 1);
}

TEST(Series, CutsAtTheTimesAskedForAndJoinsNeighbours) {
  Series series(16);
  for (int i = 1; i <= 8; ++i) {
    series.add(i, i, i);
  }

  EXPECT_THAT(series.points(3, 6, 100), SizeIs(4));
  EXPECT_THAT(series.points(3, 6, std::numeric_limits<size_t>::max()), SizeIs(4));
  EXPECT_THAT(series.points(3, 6, 2), ElementsAre(Point{4, 4, 3.5, 3, 4}, Point{6, 6, 5.5, 5, 6}));
  EXPECT_THAT(series.points(9, 10, 2), IsEmpty());
  EXPECT_THAT(series.points(0, 10, 0), IsEmpty());
}

TEST(Series, LeavesOutWhatIsNoNumberWhereThereAreNumbers) {
  Series series(4);
  series.add(1, 1, NAN);
  EXPECT_TRUE(std::isnan(series.points(0, kEver, 1)[0].mean));
  series.add(2, 2, 3);
  series.add(3, 3, NAN);

  EXPECT_THAT(series.points(0, kEver, 1), ElementsAre(Point{3, 3, 3, 3, 3}));
}

}  // namespace
}  // namespace lockstep::monitor
