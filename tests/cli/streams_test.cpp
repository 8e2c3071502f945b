// SPDX-License-Identifier: Apache-2.0
// Standard streams that are closed, or full, as daemons and disks have them.
#include <csignal>
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Streams : public ::testing::Test {
 protected:
  os::CommandResult shell(const std::string& line) const {
    return os::run_command({"timeout",
                            "60",
                            "bash",
                            "-c",
                            "cd " + launcher.path("").string() + "; lockstep() { " +
                                launcher.executable + " \"$@\"; }; " + line});
  }

  Launcher launcher;
};

TEST_F(Streams, MayBeClosed) {
  for (const std::string closed : {"<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&-", "<&- >&- 2>&-"}) {
    SCOPED_TRACE(closed);
    const os::CommandResult result =
        shell("rm -rf run; lockstep run --run-dir run sh -c 'echo out; echo err >&2' " + closed);

    EXPECT_EQ(result.status.code, 0) << result.errors;
    EXPECT_THAT(read_text(launcher.path("run/logs/attempt-0/rank-0.log")),
                AllOf(HasSubstr("out\n"), HasSubstr("err\n")));
  }
}

TEST_F(Streams, ThatAreFullAreAnError) {
  ASSERT_EQ(shell("lockstep run --run-dir runs/one sh -c 'echo hello'").status.code, 0);
  for (const std::string command : {"status",
                                    "status --json",
                                    "status one",
                                    "logs one",
                                    "report one",
                                    "export one",
                                    "watch --once one",
                                    "run --dry-run sh",
                                    "data list",
                                    "--help",
                                    "--version"}) {
    SCOPED_TRACE(command);
    const os::CommandResult result = shell("lockstep " + command + " >/dev/full");

    EXPECT_EQ(result.status.code, 74);
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr("lockstep: error: cannot write to the standard output\n  reason: "),
                      HasSubstr("No space left on device")));
  }
}

TEST_F(Streams, ThatNobodyReadsAreNone) {
  ASSERT_EQ(shell("lockstep run --run-dir runs/one sh -c 'echo hello'").status.code, 0);

  const os::CommandResult result =
      shell("set -o pipefail; trap '' PIPE; lockstep report one | true; lockstep status | true");

  EXPECT_THAT(result.errors, Not(HasSubstr("error")));
}

TEST_F(Streams, OfFilesThatMayGrowNoMoreEndNoRun) {
  const os::CommandResult result =
      shell("ulimit -f 16; lockstep run --run-dir run sh -c 'seq 100000 >&2; exit 3' 2>/dev/null");

  EXPECT_EQ(result.status.code, 3) << result.errors;
}

// The box tells of the worker that has failed now.
TEST_F(Streams, OfAnEarlierRunAreNotToldAsAWorkersLastWords) {
  shell("lockstep run --run-dir run sh -c 'echo OLD LINE; echo MemoryError: old; exit 1'");

  const os::CommandResult again = shell("lockstep run --run-dir run sh -c 'exit 3'");

  EXPECT_EQ(again.status.code, 3);
  EXPECT_THAT(again.errors, AllOf(HasSubstr("| said   nothing"), Not(HasSubstr("OLD"))));
}

TEST_F(Streams, AreUtf8WhateverARunIsCalled) {
  ASSERT_EQ(shell("cp /bin/true $'b\\xff'; lockstep run $'./b\\xff'").status.code, 0);

  const os::CommandResult result = shell("lockstep status --json");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("b\xEF\xBF\xBD-"));
}

}  // namespace
}  // namespace lockstep::testing
