// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/stragglers.h"

#include <gmock/gmock.h>

namespace lockstep::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<RankView> fake_run_of(const std::vector<double>& own_seconds) {
  std::vector<RankView> ranks;
  for (const double seconds : own_seconds) {
    RankView rank;
    rank.rank = static_cast<int>(ranks.size());
    rank.step = 100;
    rank.own_seconds = seconds;
    ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> stragglers_of(std::vector<RankView> ranks) {
  mark_stragglers(ranks, 2);
  std::vector<int> marked;
  for (const RankView& rank : ranks) {
    if (rank.is_straggler) {
      marked.push_back(rank.rank);
    }
  }
  return marked;
}

TEST(Stragglers, AreSlowerThanTheOthersByFar) {
  EXPECT_THAT(stragglers_of(fake_run_of({0.10, 0.10, 0.10, 0.15})), ElementsAre(3));
  EXPECT_THAT(stragglers_of(fake_run_of({0.20, 0.10})), ElementsAre(0));
}

TEST(Stragglers, AreNotThoseThatDifferByChance) {
  EXPECT_THAT(stragglers_of(fake_run_of({0.100, 0.100, 0.100, 0.109})), IsEmpty());
  EXPECT_THAT(stragglers_of(fake_run_of({0.08, 0.10, 0.12, 0.14, 0.10, 0.12, 0.08, 0.14})),
              IsEmpty());
  EXPECT_THAT(stragglers_of(fake_run_of({0.1})), IsEmpty());
  EXPECT_THAT(stragglers_of({}), IsEmpty());
}

TEST(Stragglers, AreBehindByMoreThanReportsAreApart) {
  auto ranks = fake_run_of({0.1, 0.1, 0.1});
  ranks[0].step = 98;
  ranks[1].step = 97;
  EXPECT_THAT(stragglers_of(ranks), ElementsAre(1));
  ranks[1].step = -1;  // has not reported a step yet
  EXPECT_THAT(stragglers_of(ranks), IsEmpty());
  ranks[1].step = 50;
  ranks[1].has_ended = true;
  EXPECT_THAT(stragglers_of(ranks), IsEmpty());
}

}  // namespace
}  // namespace lockstep::monitor
