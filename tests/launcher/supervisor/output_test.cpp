// SPDX-License-Identifier: Apache-2.0
// Console output and log files.
#include <chrono>
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
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

  EXPECT_THAT(result.output, AllOf(HasSubstr("[0]: out 0\n"), HasSubstr("[1]: out 1\n")));
  EXPECT_THAT(result.errors, AllOf(HasSubstr("[0]: err 0\n"), HasSubstr("[1]: err 1\n")));
  EXPECT_THAT(log(1), AllOf(HasSubstr("out 1\n"), HasSubstr("err 1\n"), Not(HasSubstr("["))));
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
                        "printf 'bar of %s\\r' $LOCKSTEP_TERMINAL_COLUMNS\n"
                        "until grep -q 'bar of 70' typescript; do sleep 0.02; done; echo line\n");
  // script(1) gives its command a terminal, and passes the end of its input on. -f: without a
  // buffer.
  launcher.write_script("show",
                        "#!/bin/sh\nexec script -qefc 'stty cols 70; " LOCKSTEP_BIN_DIR
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
    ASSERT_THAT(words, SizeIs(6)) << line;
    EXPECT_EQ(words[0], "[" + words[1] + "]:");
    EXPECT_EQ(words[1], words[5]);
    EXPECT_EQ(words[2], words[4]);
  }
}

TEST_F(Output, KeepsUpWithAFastWriter) {
  constexpr size_t kBytes = 30000000;
  const auto start = std::chrono::steady_clock::now();
  const Result result =
      run(2, "head -c 30000000 /dev/zero | tr '\\0' $RANK | fold -w 99; printf end");

  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(log(0).size(), kBytes + kBytes / 99 + 3);
  // Each line has a prefix of five characters, and the last line also gets the missing '\n'. The
  // last lines of both workers are equal and may be merged into one: "[0-1]: end".
  const size_t lines = kBytes / 99 + 1;
  const size_t whole = 2 * (log(0).size() + 5 * lines + 1);
  EXPECT_THAT(result.output.size(), AnyOf(whole, whole - 7));
  RecordProperty("seconds", std::to_string(took.count()));
}

TEST_F(Output, CollapsesWhatAllRanksSay) {
  // The workers synchronize before each line. On a busy machine, one can still be later than the
  // others wait for it, but not in every run.
  Result result;
  comes_true([&] {
    result = run(4,
                 "meet() { touch $1-$RANK; until [ -e $1-0 -a -e $1-1 -a -e $1-2 -a -e "
                 "$1-3 ]; do sleep 0.01; done; }\n"
                 "meet a; echo starting; echo rank $RANK; meet b; echo ready; meet c; "
                 "echo a warning >&2");
    for (const char* round : {"a", "b", "c"}) {
      for (int rank = 0; rank < 4; ++rank) {
        std::filesystem::remove(launcher.path(fmt::format("{}-{}", round, rank)));
      }
    }
    return result.output.find("[0-3]: starting\n") != std::string::npos &&
           result.output.find("[0-3]: ready\n") != std::string::npos &&
           result.errors.find("[0-3]: a warning\n") != std::string::npos;
  });

  EXPECT_THAT(result.output, AllOf(HasSubstr("[0-3]: starting\n"), HasSubstr("[0-3]: ready\n")));
  EXPECT_THAT(result.output, HasSubstr("[2]: rank 2\n"));
  EXPECT_THAT(result.errors, HasSubstr("[0-3]: a warning\n"));
}

TEST_F(Output, IsCompleteWhenAWorkerIsKilled) {
  const Result result = run(1, "seq 100000; printf 'last words'; kill -9 $$");

  EXPECT_EQ(result.status.shell_code(), 137);
  EXPECT_THAT(result.output, ::testing::EndsWith("\n100000\nlast words\n"));
  EXPECT_THAT(log(0), ::testing::EndsWith("\n100000\nlast words"));
}

TEST_F(Output, DoesNotWaitForASlowReader) {
  launcher.write_script(
      "many", "#!/bin/sh\nhead -c 60000000 /dev/zero | tr '\\0' x | fold -w 99; echo > finished\n");
  const os::CommandResult result = os::run_command(
      {"sh",
       "-c",
       "cd " + launcher.path("").string() +
           " && " LOCKSTEP_BIN_DIR
           "/lockstep run --run-dir run ./many | { while ! [ -e finished ]; do sleep 0.1; done; "
           "grep lockstep; }"});

  EXPECT_THAT(log(0).size(), 60000000U + 60000000U / 99);
  EXPECT_THAT(result.output,
              HasSubstr("not shown: the reader is too slow; the log files are complete\n"));
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
