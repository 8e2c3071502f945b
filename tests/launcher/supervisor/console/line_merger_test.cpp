// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/console/line_merger.h"

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
class Workers {
 public:
  explicit Workers(int size) : merger(size) {}

  void say(int rank, const std::vector<std::string>& lines, Stream stream = Stream::Out) {
    for (const std::string& line : lines) {
      merger.add(rank, stream, line, now);
    }
  }

  // The lines that are ready, as "0-3: text".
  std::vector<std::string> shown() {
    std::vector<std::string> lines;
    while (const auto line = merger.find_ready(now)) {
      lines.push_back(to_string(line->ranks) + ": " + line->text);
    }
    return lines;
  }

  std::vector<std::string> shown_after(milliseconds time) {
    now += time;
    return shown();
  }

  LineMerger merger;
  LineMerger::Time now{std::chrono::hours(1)};
};

TEST(LineMerger, ShowsALineAtOnceWhenEveryRankHasSaidIt) {
  Workers workers(3);
  workers.say(2, {"hello"});
  workers.say(0, {"hello"});
  EXPECT_THAT(workers.shown(), IsEmpty());

  workers.say(1, {"hello"});

  EXPECT_THAT(workers.shown(), ElementsAre("0-2: hello"));
  EXPECT_EQ(workers.merger.next_time(), std::nullopt);
}

TEST(LineMerger, ShowsALineOfFewRanksAfterTheWindow) {
  Workers workers(8);
  workers.say(0, {"warning"});
  workers.say(5, {"warning"});
  workers.now += milliseconds(60);
  workers.say(1, {"warning"});

  EXPECT_EQ(workers.merger.next_time(), workers.now + milliseconds(40));
  EXPECT_THAT(workers.shown_after(milliseconds(39)), IsEmpty());
  EXPECT_THAT(workers.shown_after(milliseconds(1)), ElementsAre("0-1,5: warning"));
}

TEST(LineMerger, KeepsTheOrderOfEachRank) {
  Workers workers(2);
  workers.say(0, {"a", "b", "a"});
  workers.say(1, {"b", "a", "a"});

  EXPECT_THAT(workers.shown_after(milliseconds(100)),
              ElementsAre("0: a", "0-1: b", "0-1: a", "1: a"));
}

TEST(LineMerger, KeepsRepeatedLinesOfOneRank) {
  Workers workers(2);
  workers.say(0, {"y", "y", "y"});
  workers.say(1, {"y", "y"});

  EXPECT_THAT(workers.shown_after(milliseconds(100)), ElementsAre("0-1: y", "0-1: y", "0: y"));
}

TEST(LineMerger, BringsCommonLinesTogetherAroundOwnOnes) {
  Workers workers(3);
  for (const int rank : {0, 1, 2}) {
    const std::string me = std::to_string(rank);
    workers.say(rank, {"I am " + me, "loading", "", "loaded by " + me, "ready"});
  }

  EXPECT_THAT(workers.shown_after(milliseconds(100)),
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

TEST(LineMerger, KeepsStreamsApart) {
  Workers workers(2);
  workers.say(0, {"same"}, Stream::Out);
  workers.say(0, {"oops"}, Stream::Err);
  workers.say(1, {"oops", "same"}, Stream::Err);
  workers.say(1, {"same"}, Stream::Out);

  EXPECT_THAT(workers.shown_after(milliseconds(100)),
              ElementsAre("0-1: same", "0-1: oops", "1: same"));
}

TEST(LineMerger, EndsTheWaitOfOneRankWithAllBefore) {
  Workers workers(4);
  workers.say(0, {"a"});
  workers.say(1, {"b"});
  workers.say(2, {"c"});

  workers.merger.release(1, Stream::Err);
  EXPECT_THAT(workers.shown(), IsEmpty());
  workers.merger.release(1, Stream::Out);
  EXPECT_THAT(workers.shown(), ElementsAre("0: a", "1: b"));
  workers.merger.release_all();
  EXPECT_THAT(workers.shown(), ElementsAre("2: c"));
}

TEST(LineMerger, MakesAHundredLinesOfAThousandRanksInAnyOrder) {
  std::vector<std::string> lines;
  for (int i = 0; i < 100; ++i) {
    lines.push_back("line " + std::to_string(i % 10 == 9 ? 9 : i));
  }
  std::vector<int> ranks(1000);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), std::mt19937(3));
  Workers workers(1000);

  for (const int rank : ranks) {
    workers.say(rank, lines);
  }

  const std::vector<std::string> shown = workers.shown();
  ASSERT_EQ(shown.size(), 100U);
  for (size_t i = 0; i < shown.size(); ++i) {
    EXPECT_EQ(shown[i], "0-999: " + lines[i]);
  }
}

TEST(LineMerger, BoundsWhatWaits) {
  Workers workers(2);
  size_t shown = 0;
  for (int i = 0; i < 100000; ++i) {
    workers.say(0, {"line " + std::to_string(i)});
    shown += workers.shown().size();
  }
  EXPECT_GE(shown, 100000 - LineMerger::kMaxLines);

  workers.say(1, {std::string(LineMerger::kMaxBytes, 'x')});
  EXPECT_EQ(workers.shown().size() + shown, 100000U + 1);
}

TEST(LineMerger, NeverLosesALineNorTurnsTheOrderOfARank) {
  std::mt19937 random(11);
  for (int turn = 0; turn < 50; ++turn) {
    Workers workers(6);
    std::map<int, std::vector<std::string>> said;
    std::map<int, std::vector<std::string>> seen;
    const auto look = [&] {
      while (const auto line = workers.merger.find_ready(workers.now)) {
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
      workers.say(rank, {line});
      workers.now += milliseconds(random() % 8);
      look();
    }
    workers.merger.release_all();
    look();
    EXPECT_EQ(seen, said);
  }
}

}  // namespace
}  // namespace lockstep::supervisor
