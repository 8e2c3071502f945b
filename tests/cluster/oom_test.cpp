// SPDX-License-Identifier: Apache-2.0
#include "cluster/oom.h"

#include <gmock/gmock.h>

namespace lockstep::cluster {
namespace {

TEST(OomKills, AreReadFromTheKernelsCounters) {
  EXPECT_EQ(find_oom_kills_in("pgfault 12\noom_kill 3\nnr_x 1\n"), 3);
  EXPECT_EQ(find_oom_kills_in("pgfault 12\n"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::cluster
