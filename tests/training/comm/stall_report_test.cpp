// SPDX-License-Identifier: Apache-2.0
#include "training/comm/stall_report.h"

#include <gmock/gmock.h>

#include "training/comm/format_ranks.h"

namespace lockstep::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

// A worker that has been in its call since second 100.
Seen in_call(uint64_t number, const std::string& call) {
  Seen seen;
  seen.host = "n1";
  seen.number = number;
  seen.call = call;
  seen.in_call = true;
  seen.since = 100;
  return seen;
}

Seen after_call(uint64_t number, const std::string& call) {
  Seen seen = in_call(number, call);
  seen.in_call = false;
  return seen;
}

Seen in_stretch(uint64_t number, const std::string& stretch) {
  Seen seen = after_call(number, "barrier");
  seen.scope = stretch;
  return seen;
}

Seen at_end(uint64_t number) {
  Seen seen = in_call(number, "the end of the program");
  seen.is_end = true;
  return seen;
}

TEST(StallReport, WritesRanksShortly) {
  EXPECT_EQ(format_ranks({3}), "rank 3");
  EXPECT_EQ(format_ranks({0, 1}), "ranks 0, 1");
  EXPECT_EQ(format_ranks({0, 1, 2, 3, 4, 5, 7}), "ranks 0-5, 7");
  EXPECT_EQ(format_ranks({1, 3, 4, 9}), "ranks 1, 3, 4, 9");
}

TEST(StallReport, GoesThroughTheStoreAndBack) {
  Seen seen = in_call(7, "all-reduce of 4 floats");
  seen.scope = "the exchange of gradients";
  seen.detail = "fc1.weight";
  seen.phase = "data";
  seen.since = 1234567890.125;
  seen.failed = true;
  seen.beat = 12;

  EXPECT_THAT(decode(encode(seen)), Optional(seen));
  for (const char* text : {"",
                           "1",
                           "2\na\n1\nb\n0\n0\n\n\n\n1.0\n0\n1",
                           "1\na\nx\nb\n0\n0\n\n\n\n1.0\n0\n1",
                           "1\na\n1\nb\n0\n0\n\n\n\nsoon\n0\n1"}) {
    EXPECT_FALSE(decode(text)) << text;
  }
}

TEST(StallReport, NamesWhoIsMissingWhereItWasAndWhoWaits) {
  Seen late = after_call(1202, "broadcast of 3 floats from rank 0");
  late.host = "n012";
  late.phase = "data";
  late.since = 101;
  Seen mine = in_call(1203, "all-reduce of 1 200 floats");
  mine.detail = "fc1.weight, fc1.bias";

  EXPECT_EQ(
      find_missing({mine, late, mine, mine}, 0, 110),
      "rank 1 has been missing from all-reduce of 1 200 floats #1203 (fc1.weight, fc1.bias) for "
      "10 s; rank 1 on n012 was last seen busy with data for 9 s, after broadcast of 3 floats "
      "from rank 0 #1202; ranks 0, 2, 3 wait");
}

TEST(StallReport, NamesFourOfManyAndThoseThatNeverSpoke) {
  const Seen mine = in_call(2, "barrier");
  const Seen late = after_call(1, "barrier");

  EXPECT_EQ(
      find_missing({late, late, std::nullopt, late, late, late, mine}, 6, 100),
      "ranks 0-5 have been missing from barrier #2 for 0 s; rank 0 on n1 was last seen computing "
      "for 0 s, after barrier #1; rank 1 on n1 was last seen computing for 0 s, after barrier "
      "#1; rank 2 has not been seen yet; rank 3 on n1 was last seen computing for 0 s, after "
      "barrier #1; and 2 more; rank 6 waits");
}

TEST(StallReport, CountsAWorkerOutsideAStretchAsMissing) {
  const Seen mine = in_stretch(5, "the exchange of gradients");

  EXPECT_THAT(
      find_missing({mine, after_call(5, "barrier")}, 0, 110),
      Optional(HasSubstr("rank 1 has been missing from the exchange of gradients after call #5")));
  EXPECT_THAT(find_missing({mine, in_call(6, "barrier")}, 0, 110),
              Optional(HasSubstr("rank 1 on n1 was last seen in barrier #6")));
}

TEST(StallReport, DoesNotMissRanksThatArrivedOrLeft) {
  EXPECT_FALSE(find_missing({in_call(5, "barrier"), in_call(5, "barrier")}, 0, 110));
  EXPECT_FALSE(find_missing({in_call(5, "barrier"), after_call(5, "barrier")}, 0, 110));
  EXPECT_FALSE(find_missing({in_call(5, "barrier"), in_call(6, "barrier")}, 0, 110));
  const Seen stretch = in_stretch(5, "the exchange of gradients");
  EXPECT_FALSE(find_missing({stretch, stretch}, 0, 110));
  EXPECT_FALSE(find_missing({stretch, in_stretch(7, "the exchange of gradients")}, 0, 110));
}

TEST(StallReport, FindsDifferentCallsOfOneNumber) {
  const auto mistake = find_mistake({in_call(7, "all-reduce of 4 floats"),
                                     in_call(7, "all-reduce of 5 floats"),
                                     in_call(7, "all-reduce of 4 floats")});

  ASSERT_TRUE(mistake);
  EXPECT_EQ(mistake->sentence, "workers made different collective calls");
  EXPECT_THAT(
      mistake->facts,
      ElementsAre("ranks 0, 2: all-reduce of 4 floats #7", "rank 1: all-reduce of 5 floats #7"));
  EXPECT_THAT(mistake->hint, HasSubstr("make the same calls on every worker"));
}

TEST(StallReport, FindsAWorkerThatEndedBeforeTheOthers) {
  for (const Seen& waiting :
       {in_call(7, "all-reduce of 4 floats"), in_stretch(6, "the exchange of gradients")}) {
    const auto mistake = find_mistake({waiting, at_end(7), waiting});

    ASSERT_TRUE(mistake);
    EXPECT_EQ(mistake->sentence, "rank 1 finished before the others");
    EXPECT_THAT(mistake->facts,
                ElementsAre("rank 1: the end of the program", HasSubstr("ranks 0, 2: ")));
    EXPECT_THAT(mistake->hint, HasSubstr("Strategy::join()"));
  }
}

TEST(StallReport, TakesNoSlowWorkerForAMistake) {
  EXPECT_FALSE(find_mistake({at_end(7), after_call(6, "barrier")}));
  EXPECT_FALSE(find_mistake({at_end(7), in_call(6, "all-reduce of 4 floats")}));
  EXPECT_FALSE(find_mistake({at_end(7), at_end(7), std::nullopt}));
  EXPECT_FALSE(find_mistake({in_call(7, "barrier"), in_call(6, "all-reduce of 4 floats")}));
  // A worker that has joined waits in a scope with another name.
  EXPECT_FALSE(find_mistake({in_stretch(6, "join"), in_stretch(6, "the exchange of gradients")}));
}

}  // namespace
}  // namespace lockstep::comm
