// SPDX-License-Identifier: Apache-2.0
#include "common/base/deadline.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

TEST(Earliest, SkipsAbsentTimes) {
  const std::optional<int> none;
  EXPECT_EQ(earliest({none, std::optional(3), none, std::optional(2)}), 2);
  EXPECT_EQ(earliest({none, none}), std::nullopt);
}

}  // namespace
}  // namespace lockstep
