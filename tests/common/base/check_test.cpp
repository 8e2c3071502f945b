// SPDX-License-Identifier: Apache-2.0
#include "common/base/check.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

TEST(Check, IsSilentWhileTheConditionHolds) {
  LOCKSTEP_CHECK(1 + 1 == 2);
}

TEST(CheckDeathTest, NamesConditionAndPlaceAndAborts) {
  EXPECT_DEATH(LOCKSTEP_CHECK(1 + 1 == 3), "bug: 1 \\+ 1 == 3 does not hold .*check_test.cpp:");
}

}  // namespace
}  // namespace lockstep
