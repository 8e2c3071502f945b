// SPDX-License-Identifier: Apache-2.0
// What the user sees and what the logs keep.
#include <chrono>
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;
using ::testing::SizeIs;

class Output : public ::testing::Test {
 protected:
  Result run(int workers, const std::string& script) {
    return launcher.run({"run",
                         "--nproc-per-node",
                         std::to_string(workers),
                         "--run-dir",
                         "run",
                         "sh",
                         "-c",
                         script});
  }
  std::string log(int rank) const { return read_text(launcher.run_directory().log(0, rank)); }

  Launcher launcher;
};

TEST_F(Output, IsMergedWithTheRankAndKeptWithoutIt) {
  const Result result = run(2, "echo out $RANK; echo err $RANK >&2");

  EXPECT_THAT(result.output, AllOf(HasSubstr("[rank 0] out 0\n"), HasSubstr("[rank 1] out 1\n")));
  EXPECT_THAT(result.errors, AllOf(HasSubstr("[rank 0] err 0\n"), HasSubstr("[rank 1] err 1\n")));
  EXPECT_THAT(log(1), AllOf(HasSubstr("out 1\n"), HasSubstr("err 1\n"), Not(HasSubstr("rank"))));
}

TEST_F(Output, OfOneWorkerIsLeftAsItIs) {
  const Result result = run(1, "printf 'a\\n\\nno end'");

  EXPECT_EQ(result.output, "a\n\nno end\n");
  EXPECT_EQ(log(0), "a\n\nno end");
}

TEST_F(Output, LeavesStatusLinesOutWhereThereIsNoTerminal) {
  const Result result = run(1, "printf '10 %%\\r20 %%\\r'; echo done");

  EXPECT_EQ(result.output, "done\n");
  EXPECT_EQ(log(0), "done\n");
}

TEST_F(Output, ShowsTheStatusAtTheBottomOfATerminal) {
  launcher.write_script("bar",
                        "#!/bin/sh\n"
                        "printf 'bar of %s\\r' $LOCKSTEP_TERMINAL_COLUMNS; sleep 0.3; echo line\n");
  // script(1) gives its command a terminal; without input it tells the command so.
  launcher.write_script("show",
                        "#!/bin/sh\nexec script -qec 'stty cols 70; " LOCKSTEP_BIN_DIR
                        "/lockstep run --run-dir run ./bar' typescript < /dev/null\n");
  if (!os::find_program("script", os::environment())) {
    GTEST_SKIP() << "script(1) is not installed";
  }

  os::run_command({"sh", "-c", "cd " + launcher.path("").string() + " && ./show"});

  EXPECT_THAT(read_text(launcher.path("typescript")),
              HasSubstr("\r\x1b[2Kbar of 70\r\x1b[2Kline\r\nbar of 70\r\x1b[2K"));
  EXPECT_EQ(log(0), "line\n");
}

TEST_F(Output, IsNeverTornWithinALine) {
  const Result result =
      run(4, "i=0; while [ $i -lt 500 ]; do echo $RANK $i $RANK $i $RANK; i=$((i+1)); done");

  std::vector<std::string> lines = split(result.output, '\n');
  lines.pop_back();
  EXPECT_THAT(lines, SizeIs(2000));
  for (const std::string& line : lines) {
    const std::vector<std::string> words = split(line, ' ');
    ASSERT_THAT(words, SizeIs(7)) << line;
    EXPECT_EQ(words[1], words[2] + "]");
    EXPECT_EQ(words[2], words[6]);
    EXPECT_EQ(words[3], words[5]);
  }
}

TEST_F(Output, KeepsUpWithAFastWriter) {
  constexpr size_t kBytes = 30000000;
  const auto start = std::chrono::steady_clock::now();
  const Result result = run(2, "head -c 30000000 /dev/zero | tr '\\0' x | fold -w 99; printf end");

  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_THAT(took.count(), Lt(60.0));
  EXPECT_EQ(log(0).size(), kBytes + kBytes / 99 + 3);
  // Each line has its prefix of nine characters, the last one also the '\n' that it lacked.
  const size_t lines = kBytes / 99 + 1;
  EXPECT_EQ(result.output.size(), 2 * (log(0).size() + 9 * lines + 1));
  RecordProperty("seconds", std::to_string(took.count()));
}

TEST_F(Output, GoesOnWhenItsReaderLeaves) {
  launcher.write_script("many", "#!/bin/sh\nseq 100000; echo the end > finished\n");
  const os::CommandResult result = os::run_command(
      {"sh",
       "-c",
       "cd " + launcher.path("").string() +
           " && { " LOCKSTEP_BIN_DIR "/lockstep run --run-dir run ./many; echo $? > code; } | head "
           "-1"});

  EXPECT_EQ(result.output, "1\n");
  EXPECT_EQ(launcher.wait_for_file("code"), "0\n");
  EXPECT_THAT(log(0), ::testing::EndsWith("\n100000\n"));
}

}  // namespace
}  // namespace lockstep::testing
