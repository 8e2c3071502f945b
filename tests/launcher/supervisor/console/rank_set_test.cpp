// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/console/rank_set.h"

#include <gmock/gmock.h>
#include <random>
#include <set>

namespace lockstep::supervisor {
namespace {

RankSet set_of(const std::vector<int>& ranks) {
  RankSet set;
  for (const int rank : ranks) {
    set.insert(rank);
  }
  return set;
}

TEST(RankSet, ListsItsRanges) {
  struct Case {
    std::vector<int> ranks;
    std::string text;
  };
  const std::vector<Case> cases = {{{}, ""},
                                   {{3}, "3"},
                                   {{0, 1}, "0-1"},
                                   {{5, 0, 2, 1, 3}, "0-3,5"},
                                   {{0, 2, 1, 1, 2}, "0-2"},
                                   {{7, 5, 3, 1}, "1,3,5,7"}};
  for (const Case& one : cases) {
    EXPECT_EQ(to_string(set_of(one.ranks)), one.text);
  }
}

TEST(RankSet, AgreesWithAPlainSet) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> some(0, 60);
  for (int turn = 0; turn < 300; ++turn) {
    std::set<int> plain[2];
    RankSet sets[2];
    for (int i = 0; i < 2; ++i) {
      for (int count = some(random) / 3; count > 0; --count) {
        const int rank = some(random);
        plain[i].insert(rank);
        sets[i].insert(rank);
      }
      ASSERT_EQ(sets[i].size(), static_cast<int>(plain[i].size()));
    }
    bool have_common = false;
    for (int rank = 0; rank <= 60; ++rank) {
      ASSERT_EQ(sets[0].contains(rank), plain[0].contains(rank));
      have_common = have_common || (plain[0].contains(rank) && plain[1].contains(rank));
    }
    ASSERT_EQ(sets[0].intersects(sets[1]), have_common);

    sets[0].insert(sets[1]);
    plain[0].insert(plain[1].begin(), plain[1].end());
    ASSERT_EQ(sets[0], set_of({plain[0].begin(), plain[0].end()}));
  }
}

}  // namespace
}  // namespace lockstep::supervisor
