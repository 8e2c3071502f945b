// SPDX-License-Identifier: Apache-2.0
#include "common/base/random.h"

#include <gmock/gmock.h>
#include <vector>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Lt;

TEST(Random, GivesTheNumbersOfSplitMix64) {
  // The order of samples is part of the format of a run: these numbers must never change.
  Random random(0, 0);

  EXPECT_EQ(random.next(), 0xa706dd2f4d197e6fU);
  EXPECT_EQ(random.next(), 0xb382a305f4414f5eU);
  EXPECT_THAT(permutation(10, Random(1, 2)), ElementsAre(7, 8, 3, 0, 1, 5, 9, 6, 2, 4));
}

TEST(Random, ReachesEveryNumberBelowTheBoundAboutEquallyOften) {
  Random random(3, 4);
  std::vector<int> seen(7);
  for (int i = 0; i < 70000; ++i) {
    ++seen[random.below(7)];
  }

  EXPECT_THAT(seen, Each(AllOf(Gt(9600), Lt(10400))));
}

}  // namespace
}  // namespace lockstep
