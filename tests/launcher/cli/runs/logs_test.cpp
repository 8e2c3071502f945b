// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/logs.h"

#include <gmock/gmock.h>

#include "common/os/pipe.h"
#include "lockstep/error.h"
#include "support/fake_runs.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeRuns;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Logs : public ::testing::Test {
 protected:
  std::string printed(const LogOptions& options) const {
    std::string text;
    print_logs(run,
               choose_logs(read_run(run.root()), options),
               options.last_lines,
               [&text](std::string_view piece) { text += piece; });
    return text;
  }

  FakeRuns runs;
  contract::RunDirectory run = runs.add("train");
};

TEST(ParseRanks, TakesRanksAndRanges) {
  EXPECT_EQ(supervisor::to_string(parse_ranks("3")), "3");
  EXPECT_EQ(supervisor::to_string(parse_ranks("0,2-5,6")), "0,2-6");
  for (const std::string bad : {"x", "1-", "-1", "5-3", "1,,2", "1-2-3", "99999999999"}) {
    EXPECT_THAT([&bad] { parse_ranks(bad); },
                ThrowsMessage<Error>(AllOf(HasSubstr("invalid value '" + bad + "' for --rank"),
                                           HasSubstr("--rank 0,4-7"))));
  }
}

TEST_F(Logs, ComeAsOnTheConsole) {
  FakeRuns::write_log(run, 0, 0, "starting\nI am 0\nready\n");
  FakeRuns::write_log(run, 0, 1, "starting\nI am 1\nready\nno end");
  FakeRuns::write_log(run, 0, 2, "starting\nready\n");

  EXPECT_EQ(printed({}),
            "[0-2]: starting\n"
            "[0]: I am 0\n"
            "[1]: I am 1\n"
            "[0-2]: ready\n"
            "[1]: no end\n");
  EXPECT_EQ(printed({.ranks = parse_ranks("1-7"), .attempt = {}, .last_lines = 1}),
            "[1]: no end\n[2]: ready\n");
}

TEST_F(Logs, OfOneWorkerAreAsTheyAre) {
  FakeRuns::write_log(run, 0, 0, "a\n\nb\n");

  EXPECT_EQ(printed({}), "a\n\nb\n");
}

TEST_F(Logs, AreThoseOfTheNewestAttempt) {
  FakeRuns::write_log(run, 0, 0, "first\n");
  FakeRuns::write_log(run, 1, 0, "second\n");

  EXPECT_EQ(printed({}), "second\n");
  EXPECT_EQ(printed({.ranks = {}, .attempt = 0, .last_lines = {}}), "first\n");
}

TEST_F(Logs, AreRefusedWhereThereAreNone) {
  EXPECT_THAT([&] { printed({}); }, ThrowsMessage<Error>(HasSubstr("train has no logs")));

  FakeRuns::write_log(run, 0, 0, "");
  FakeRuns::write_log(run, 0, 1, "");
  EXPECT_THAT(
      [&] { printed({.ranks = {}, .attempt = 3, .last_lines = {}}); },
      ThrowsMessage<Error>(AllOf(
          HasSubstr("train has no attempt 3"), HasSubstr("attempts 0"), HasSubstr("--attempt 0"))));
  EXPECT_THAT(
      [&] { printed({.ranks = parse_ranks("7"), .attempt = {}, .last_lines = {}}); },
      ThrowsMessage<Error>(AllOf(
          HasSubstr("train has no rank 7"), HasSubstr("ranks 0-1"), HasSubstr("--rank 0-1"))));
}

TEST_F(Logs, OfTwoHundredRanksCollapse) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += "line " + std::to_string(i) + "\n";
  }
  for (int rank = 0; rank < 200; ++rank) {
    FakeRuns::write_log(run, 0, rank, text);
  }

  const std::string shown = printed({});

  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 1000);
  EXPECT_EQ(shown.substr(0, 32), "[0-199]: line 0\n[0-199]: line 1\n");
}

TEST_F(Logs, KnowWhereTheLastLinesBegin) {
  struct Case {
    std::string text;
    size_t lines;
    uint64_t begin;
  };
  const std::string much(100000, 'x');
  const std::vector<Case> cases = {{"", 3, 0},
                                   {"a\nb\nc\n", 0, 6},
                                   {"a\nb\nc\n", 1, 4},
                                   {"a\nb\nc", 1, 4},
                                   {"a\nb\nc\n", 2, 2},
                                   {"a\nb\nc\n", 3, 0},
                                   {"a\nb\nc\n", 9, 0},
                                   {"a\n\n\n", 2, 2},
                                   {"a\n" + much + "\nb\n", 2, 2}};
  for (const Case& one : cases) {
    FakeRuns::write_log(run, 0, 0, one.text);
    EXPECT_EQ(find_last_lines(run.log(0, 0), one.lines), one.begin) << one.lines;
  }
  EXPECT_EQ(find_last_lines(run.log(0, 5), 3), 0U);
}

class Ear : public supervisor::LineSink {
 public:
  void take_lines(int rank, supervisor::Stream /*stream*/, std::string_view lines) override {
    heard.push_back(std::to_string(rank) + ":" + std::string(lines));
  }
  void take_status(int /*rank*/, std::string_view /*text*/) override {}

  std::vector<std::string> heard;
};

TEST_F(Logs, AreFollowedAsTheyGrow) {
  FakeRuns::write_log(run, 0, 0, "a\nb\nc");
  Ear ear;
  LogFollower follower(run, 0, std::nullopt, 2);

  EXPECT_TRUE(follower.read(ear));
  EXPECT_FALSE(follower.read(ear));
  os::write_all(os::open_for_append(run.log(0, 0)).number(), "d\n");
  FakeRuns::write_log(run, 0, 1, "new\nlast words");
  EXPECT_TRUE(follower.read(ear));
  EXPECT_FALSE(follower.read(ear));
  follower.finish(ear);

  EXPECT_THAT(ear.heard, ElementsAre("0:b\n", "0:cd\n", "1:new\n", "1:last words"));
}

}  // namespace
}  // namespace lockstep::cli
