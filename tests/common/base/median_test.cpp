// SPDX-License-Identifier: Apache-2.0
#include "common/base/median.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

TEST(Median, IsTheMiddleValue) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{7}), 7);
  EXPECT_EQ(lower_median({3, 1, 2}), 2);
  EXPECT_EQ(upper_median({3, 1, 2}), 2);
}

TEST(Median, OfNothingIsZero) {
  EXPECT_EQ(median({}), 0);
}

TEST(RelativeSpread, IsHalfOfTheInterquartileRange) {
  EXPECT_EQ(relative_spread(std::vector<double>{1, 2, 3, 4, 5}), 1.0 / 3);
}

TEST(Median, OfAnEvenNumberIsBetweenTheTwoMiddleValues) {
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
  EXPECT_EQ(lower_median({4, 1, 2, 3}), 2);
  EXPECT_EQ(upper_median({4, 1, 2, 3}), 3);
}

}  // namespace
}  // namespace lockstep
