// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/console/collapse.h"

#include <gmock/gmock.h>
#include <map>
#include <numeric>
#include <random>

namespace lockstep::supervisor {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A run of `size` workers, with a clock that the test controls.
class Gang {
 public:
  explicit Gang(int size) : collapse(size) {}

  void say(int rank, const std::vector<std::string>& lines, Stream stream = Stream::Out) {
    for (const std::string& line : lines) {
      collapse.add(rank, stream, line, now);
    }
  }

  // The lines that are ready, as "0-3: text".
  std::vector<std::string> shown() {
    std::vector<std::string> lines;
    while (const auto line = collapse.find_ready(now)) {
      lines.push_back(to_string(line->ranks) + ": " + line->text);
    }
    return lines;
  }

  std::vector<std::string> shown_after(milliseconds time) {
    now += time;
    return shown();
  }

  Collapse collapse;
  Collapse::Time now{std::chrono::hours(1)};
};

TEST(Collapse, ShowsALineAtOnceWhenEveryRankHasSaidIt) {
  Gang gang(3);
  gang.say(2, {"hello"});
  gang.say(0, {"hello"});
  EXPECT_THAT(gang.shown(), IsEmpty());

  gang.say(1, {"hello"});

  EXPECT_THAT(gang.shown(), ElementsAre("0-2: hello"));
  EXPECT_EQ(gang.collapse.next_time(), std::nullopt);
}

TEST(Collapse, ShowsALineOfFewRanksAfterTheWindow) {
  Gang gang(8);
  gang.say(0, {"warning"});
  gang.say(5, {"warning"});
  gang.now += milliseconds(60);
  gang.say(1, {"warning"});

  EXPECT_EQ(gang.collapse.next_time(), gang.now + milliseconds(40));
  EXPECT_THAT(gang.shown_after(milliseconds(39)), IsEmpty());
  EXPECT_THAT(gang.shown_after(milliseconds(1)), ElementsAre("0-1,5: warning"));
}

TEST(Collapse, KeepsTheOrderOfEachRank) {
  Gang gang(2);
  gang.say(0, {"a", "b", "a"});
  gang.say(1, {"b", "a", "a"});

  EXPECT_THAT(gang.shown_after(milliseconds(100)), ElementsAre("0: a", "0-1: b", "0-1: a", "1: a"));
}

TEST(Collapse, KeepsRepeatedLinesOfOneRank) {
  Gang gang(2);
  gang.say(0, {"y", "y", "y"});
  gang.say(1, {"y", "y"});

  EXPECT_THAT(gang.shown_after(milliseconds(100)), ElementsAre("0-1: y", "0-1: y", "0: y"));
}

TEST(Collapse, BringsCommonLinesTogetherAroundOwnOnes) {
  Gang gang(3);
  for (const int rank : {0, 1, 2}) {
    const std::string me = std::to_string(rank);
    gang.say(rank, {"I am " + me, "loading", "", "loaded by " + me, "ready"});
  }

  EXPECT_THAT(gang.shown_after(milliseconds(100)),
              ElementsAre("0: I am 0",
                          "1: I am 1",
                          "2: I am 2",
                          "0-2: loading",
                          "0-2: ",
                          "0: loaded by 0",
                          "1: loaded by 1",
                          "2: loaded by 2",
                          "0-2: ready"));
}

TEST(Collapse, KeepsStreamsApart) {
  Gang gang(2);
  gang.say(0, {"same"}, Stream::Out);
  gang.say(0, {"oops"}, Stream::Err);
  gang.say(1, {"oops", "same"}, Stream::Err);
  gang.say(1, {"same"}, Stream::Out);

  EXPECT_THAT(gang.shown_after(milliseconds(100)),
              ElementsAre("0-1: same", "0-1: oops", "1: same"));
}

TEST(Collapse, EndsTheWaitOfOneRankWithAllBefore) {
  Gang gang(4);
  gang.say(0, {"a"});
  gang.say(1, {"b"});
  gang.say(2, {"c"});

  gang.collapse.release(1, Stream::Err);
  EXPECT_THAT(gang.shown(), IsEmpty());
  gang.collapse.release(1, Stream::Out);
  EXPECT_THAT(gang.shown(), ElementsAre("0: a", "1: b"));
  gang.collapse.release_all();
  EXPECT_THAT(gang.shown(), ElementsAre("2: c"));
}

TEST(Collapse, MakesAHundredLinesOfAThousandRanksInAnyOrder) {
  std::vector<std::string> lines;
  for (int i = 0; i < 100; ++i) {
    lines.push_back("line " + std::to_string(i % 10 == 9 ? 9 : i));
  }
  std::vector<int> ranks(1000);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), std::mt19937(3));
  Gang gang(1000);

  for (const int rank : ranks) {
    gang.say(rank, lines);
  }

  const std::vector<std::string> shown = gang.shown();
  ASSERT_EQ(shown.size(), 100U);
  for (size_t i = 0; i < shown.size(); ++i) {
    EXPECT_EQ(shown[i], "0-999: " + lines[i]);
  }
}

TEST(Collapse, BoundsWhatWaits) {
  Gang gang(2);
  size_t shown = 0;
  for (int i = 0; i < 100000; ++i) {
    gang.say(0, {"line " + std::to_string(i)});
    shown += gang.shown().size();
  }
  EXPECT_GE(shown, 100000 - Collapse::kMostLines);

  gang.say(1, {std::string(Collapse::kMostBytes, 'x')});
  EXPECT_EQ(gang.shown().size() + shown, 100000U + 1);
}

TEST(Collapse, NeverLosesALineNorTurnsTheOrderOfARank) {
  std::mt19937 random(11);
  for (int turn = 0; turn < 50; ++turn) {
    Gang gang(6);
    std::map<int, std::vector<std::string>> said;
    std::map<int, std::vector<std::string>> seen;
    const auto look = [&] {
      while (const auto line = gang.collapse.find_ready(gang.now)) {
        for (int rank = 0; rank < 6; ++rank) {
          if (line->ranks.contains(rank)) {
            seen[rank].push_back(line->text);
          }
        }
      }
    };
    for (int i = 0; i < 400; ++i) {
      const int rank = static_cast<int>(random() % 6);
      const std::string line(random() % 4, static_cast<char>('a' + random() % 3));
      said[rank].push_back(line);
      gang.say(rank, {line});
      gang.now += milliseconds(random() % 8);
      look();
    }
    gang.collapse.release_all();
    look();
    EXPECT_EQ(seen, said);
  }
}

}  // namespace
}  // namespace lockstep::supervisor
