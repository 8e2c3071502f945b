// SPDX-License-Identifier: Apache-2.0
// Standard streams that are closed (daemons) or full (disks).
#include <csignal>
#include <gmock/gmock.h>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
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
  std::ofstream(launcher.path("job.yaml")) << "exec_command: 'true'\n";
  ASSERT_EQ(shell("lockstep run --run-dir runs/one sh -c 'echo hello'").status.code, 0);
  for (const std::string command : {"status",
                                    "status --json",
                                    "status one",
                                    "logs one",
                                    "report one",
                                    "export one",
                                    "watch --once one",
                                    "run --dry-run sh",
                                    "run --help",
                                    "submit -c job.yaml --dry-run",
                                    "data list",
                                    "--help",
                                    "--version"}) {
    SCOPED_TRACE(command);
    const os::CommandResult result = shell("lockstep " + command + " >/dev/full");

    EXPECT_EQ(result.status.code, 74);
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr("lockstep: error: cannot write to standard output\n  reason: "),
                      HasSubstr("No space left on device")));
  }
}

TEST_F(Streams, AreNotCreatedWithoutAReader) {
  ASSERT_EQ(shell("lockstep run --run-dir runs/one sh -c 'echo hello'").status.code, 0);

  // Outputs larger and smaller than the buffer of stdio, to a reader that has certainly exited.
  for (const std::string command : {"run --help", "--help", "report one", "status", "export one"}) {
    SCOPED_TRACE(command);
    const os::CommandResult result =
        shell("trap '' PIPE; exec 3> >(exec true); wait $!; lockstep " + command + " >&3");

    EXPECT_EQ(result.status.code, 0);
    EXPECT_EQ(result.errors, "");
  }
}

// The ignored signals, 1 to 31, of each process that printed a line of its /proc/self/status.
// Higher signals belong to the C library.
std::vector<uint64_t> ignored_signals(const os::CommandResult& result) {
  constexpr std::string_view kName = "SigIgn:\t";
  constexpr int kHexadecimal = 16;
  std::vector<uint64_t> found;
  for (size_t at = result.output.find(kName); at != std::string::npos;
       at = result.output.find(kName, at + 1)) {
    const std::string digits = result.output.substr(at + kName.size());
    found.push_back(std::stoull(digits, nullptr, kHexadecimal) & 0x7FFFFFFFU);
  }
  return found;
}

// A worker ignores the same signals as without a launcher.
TEST_F(Streams, LeaveNoSignalIgnoredInAProgram) {
  const std::string look = "sh -c 'grep SigIgn /proc/self/status'";
  const std::vector<uint64_t> without = ignored_signals(shell(look));
  ASSERT_EQ(without.size(), 1);
  // bash 5.3 starts background jobs with ignored signals, also from a function.
  const std::vector<uint64_t> behind =
      ignored_signals(shell("plain() { " + look + "; }; plain & wait"));
  ASSERT_EQ(behind.size(), 1);
  const os::CommandResult started = shell("lockstep run " + look);
  // As a task of mpirun, lockstep replaces itself with the program.
  const os::CommandResult become = shell(
      "export OMPI_MCA_ess_base_jobid=$$ OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2; "
      "for rank in 0 1; do OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$rank "
      "lockstep run " +
      look + " & done; wait");

  EXPECT_THAT(ignored_signals(started), ElementsAre(without[0])) << started.errors;
  EXPECT_THAT(ignored_signals(become), ElementsAre(behind[0], behind[0])) << become.errors;
}

TEST_F(Streams, OfFilesThatMayGrowNoMoreEndNoRun) {
  const os::CommandResult result =
      shell("ulimit -f 16; lockstep run --run-dir run sh -c 'seq 100000 >&2; exit 3' 2>/dev/null");

  EXPECT_EQ(result.status.code, 3) << result.errors;
}

// The failure report shows only output of the current run.
TEST_F(Streams, OfAnEarlierRunAreNotReportedAsLastWordsOfAWorker) {
  shell("lockstep run --run-dir run sh -c 'echo OLD LINE; echo MemoryError: old; exit 1'");

  const os::CommandResult again = shell("lockstep run --run-dir run sh -c 'exit 3'");

  EXPECT_EQ(again.status.code, 3);
  EXPECT_THAT(again.errors, AllOf(HasSubstr("| output none"), Not(HasSubstr("OLD"))));
}

TEST_F(Streams, AreUtf8WhateverARunIsCalled) {
  ASSERT_EQ(shell("cp /bin/true $'b\\xff'; lockstep run $'./b\\xff'").status.code, 0);

  const os::CommandResult result = shell("lockstep status --json");

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("b\xEF\xBF\xBD-"));
}

}  // namespace
}  // namespace lockstep::testing
