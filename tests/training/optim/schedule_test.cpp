// SPDX-License-Identifier: Apache-2.0
#include "lockstep/schedule.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Schedule, StaysConstant) {
  EXPECT_DOUBLE_EQ(Schedule::constant().factor(0), 1);
  EXPECT_DOUBLE_EQ(Schedule::constant(0.5).factor(1000), 0.5);
}

TEST(Schedule, FallsInSteps) {
  const Schedule schedule = Schedule::step(10, 0.1);

  EXPECT_DOUBLE_EQ(schedule.factor(9), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(10), 0.1);
  EXPECT_NEAR(schedule.factor(29), 0.01, 1e-15);
}

TEST(Schedule, FollowsACosineToItsFloor) {
  const Schedule schedule = Schedule::cosine(100, 0.2);

  EXPECT_DOUBLE_EQ(schedule.factor(0), 1);
  EXPECT_NEAR(schedule.factor(50), 0.6, 1e-15);
  EXPECT_NEAR(schedule.factor(100), 0.2, 1e-15);
  EXPECT_NEAR(schedule.factor(5000), 0.2, 1e-15);
}

TEST(Schedule, RisesInAStraightLineAndThenBeginsTheOther) {
  const Schedule schedule = Schedule::cosine(10).warmed_up(4);

  EXPECT_DOUBLE_EQ(schedule.factor(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.factor(3), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(4), 1);
  EXPECT_NEAR(schedule.factor(9), 0.5, 1e-15);
  EXPECT_NEAR(schedule.factor(14), 0, 1e-15);
}

TEST(Schedule, IsComposedOfAnyTwo) {
  const Schedule schedule = Schedule::linear(4, 1, 0.5).then(4, Schedule::step(2, 0.1));

  EXPECT_DOUBLE_EQ(schedule.factor(2), 0.75);
  EXPECT_DOUBLE_EQ(schedule.factor(4), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(6), 0.1);
  EXPECT_EQ(schedule.text(), "linear 4 from 1 to 0.5, then times 0.1 every 2");
}

TEST(Schedule, RefusesToBeEmpty) {
  EXPECT_THAT([] { Schedule::cosine(0); },
              ThrowsMessage<Error>(HasSubstr("a cosine schedule cannot have 0 steps")));
  EXPECT_THAT([] { Schedule::constant().warmed_up(-1); },
              ThrowsMessage<Error>(HasSubstr("a warm-up schedule cannot have -1 steps")));
}

}  // namespace
}  // namespace lockstep
