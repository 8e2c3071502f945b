// SPDX-License-Identifier: Apache-2.0
#include "common/os/environment.h"

#include <gmock/gmock.h>

#include "common/os/host.h"

namespace lockstep::os {
namespace {

using ::testing::MatchesRegex;
using ::testing::Optional;

TEST(Environment, IsACopyOfTheProcesss) {
  set_variable("LOCKSTEP_FOR_THIS_TEST", "a=b");

  EXPECT_THAT(find_variable(environment(), "LOCKSTEP_FOR_THIS_TEST"), Optional(std::string("a=b")));
  EXPECT_EQ(find_variable(environment(), "LOCKSTEP_NOT_SET"), std::nullopt);
}

TEST(Host, HasANameAndATime) {
  EXPECT_FALSE(host_name().empty());
  EXPECT_THAT(local_timestamp(), MatchesRegex("[0-9]+-[0-9]+"));
  EXPECT_EQ(local_timestamp().size(), 15U);
}

}  // namespace
}  // namespace lockstep::os
