// SPDX-License-Identifier: Apache-2.0
//
// Tests failures between workers, each of which must be reported in exactly one message.
#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <regex>

#include "common/os/command.h"
#include "common/os/files.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLockstep = LOCKSTEP_BIN_DIR "/lockstep";
const std::string kScripts = LOCKSTEP_SOURCE_DIR "/tests/distributed/scripts";
const std::string kWorker = LOCKSTEP_TEST_DIR "/faults_worker";

// Counts only the messages of workers: the summary of the launcher repeats the last lines of one.
int count_errors(const std::string& text) {
  static const std::regex kError(R"((^|\n)(\[\d+\]: )?lockstep: error:)");
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), kError), {}));
}

class Faults : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "gloo" && LOCKSTEP_HAVE_GLOO == 0) {
      GTEST_SKIP() << "this build has no gloo";
    }
    if (GetParam() == "mpi" &&
        (LOCKSTEP_HAVE_MPI == 0 || !sh("command -v mpirun").status.is_success())) {
      GTEST_SKIP() << "this build or machine has no mpi";
    }
  }

  os::CommandResult sh(const std::string& line) {
    return os::run_command({"/bin/bash", "-c", line}, {.directory = directory_.path()});
  }

  // The combined stdout and stderr, as the user sees it.
  os::CommandResult start(int workers, const std::string& more, const std::string& variables = "") {
    const std::string worker =
        fmt::format("{} --stall-warning {} {}", kWorker, stall_warning_, more);
    os::CommandResult result =
        GetParam() == "mpi"
            ? sh(fmt::format(
                  "env {} timeout 60 mpirun --allow-run-as-root --oversubscribe -np {} {}",
                  variables,
                  workers,
                  worker))
            : sh(fmt::format(
                  "env {} timeout 60 {} run --nproc-per-node {} --run-dir run -- {} --transport {}",
                  variables,
                  kLockstep,
                  workers,
                  worker,
                  GetParam()));
    result.output += result.errors;
    return result;
  }

  int stall_warning_ = 1;  // seconds

 private:
  os::TemporaryDirectory directory_;
};

TEST_P(Faults, NameAWorkerThatDoesNotCome) {
  const os::CommandResult result = start(3, "--do late --seconds 4");

  EXPECT_EQ(result.status.code, 0) << result.output;
  const std::regex warning(
      R"(rank 2 has been missing from the exchange of gradients, all-reduce of 1 200 floats #\d+ )"
      R"(\(fc1\.weight, fc1\.bias\) for \d+ s; rank 2 on \S+ was last seen busy with data for \d+ s, )"
      R"(after barrier #\d+; ranks 0, 1 wait)");
  EXPECT_TRUE(std::regex_search(result.output, warning)) << result.output;
}

TEST_P(Faults, SayNothingOfAWorkerThatIsALittleLate) {
  stall_warning_ = 30;
  const os::CommandResult result = start(2, "--do late --seconds 0.3");

  EXPECT_EQ(result.status.code, 0) << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr("has been missing")));
}

void expect_different_calls(const os::CommandResult& result, const std::string& second) {
  EXPECT_EQ(result.status.code, 64) << result.output;
  EXPECT_EQ(count_errors(result.output), 1) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("workers made different collective calls"),
                    HasSubstr("rank 0: all-reduce of 1 200 floats"),
                    HasSubstr(second)));
}

TEST_P(Faults, TellWhichShapesDoNotMatch) {
  const os::CommandResult result = start(2, "--do shape");

  expect_different_calls(result, "rank 1: all-reduce of 300 000 floats");
}

TEST_P(Faults, TellWhichCallsDoNotMatch) {
  const os::CommandResult result = start(2, "--do call");

  expect_different_calls(result, "rank 1: broadcast of 1 200 floats from rank 0");
}

// Gloo and MPI compare only the first 64 calls in advance.
TEST_P(Faults, TellWhichLaterShapesDoNotMatch) {
  if (GetParam() == "mpi") {
    GTEST_SKIP() << "Open MPI writes past the shorter tensor, and crashes";
  }
  const os::CommandResult result = start(2, "--do shape --after 100");

  expect_different_calls(result, "rank 1: all-reduce of 300 000 floats");
}

TEST_P(Faults, TellWhichLaterCallsDoNotMatch) {
  const os::CommandResult result = start(2, "--do call --after 100");

  expect_different_calls(result, "rank 1: broadcast of 1 200 floats from rank 0");
}

TEST_P(Faults, EndARunThatWaitsTooLong) {
  const os::CommandResult result =
      start(3, "--do late --seconds 20", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=3");

  EXPECT_EQ(result.status.code, 75) << result.output;
  EXPECT_EQ(count_errors(result.output), 1) << result.output;
  const std::regex message(
      R"(stalled: rank 2 has been missing from the exchange of gradients, all-reduce of 1 200 )"
      R"(floats #\d+ \(fc1\.weight, fc1\.bias\) for [3-5] s; .*; ranks 0, 1 wait)");
  EXPECT_TRUE(std::regex_search(result.output, message)) << result.output;
}

TEST_P(Faults, EndARunThatWaitsTooLongForATensorOfHorovod) {
  const os::CommandResult result =
      start(3,
            "-s horovod --do away --seconds 20",
            "HOROVOD_STALL_CHECK_TIME_SECONDS=1 HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=3");

  EXPECT_EQ(result.status.code, 69) << result.output;
  EXPECT_EQ(count_errors(result.output), 1) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("exchange of gradients stalled for more than 3 s"),
                    HasSubstr("0.weight: ready on ranks 0, 2; missing on rank 1 for 3")));
}

TEST_P(Faults, TellWhoEndedBeforeTheOthers) {
  const os::CommandResult result = start(2, "--do early -s ddp");

  EXPECT_EQ(result.status.code, 64) << result.output;
  EXPECT_EQ(count_errors(result.output), 1) << result.output;
  EXPECT_THAT(result.output,
              AllOf(AnyOf(HasSubstr("rank 1 finished before the others"),
                          HasSubstr("workers made different collective calls")),
                    HasSubstr("rank 1: the end of the program"),
                    HasSubstr("rank 0: "),
                    HasSubstr("StrategyOptions::uneven"),
                    HasSubstr("Strategy::join()")));
}

// The others lose their peer and end without a message.
TEST_P(Faults, TellOnceWhichWorkerFailed) {
  for (const int workers : {2, 4}) {
    for (const int rank : {0, 1}) {
      SCOPED_TRACE(fmt::format("rank {} of {}", rank, workers));
      const os::CommandResult result = start(workers, fmt::format("--do fail --rank {}", rank));

      EXPECT_EQ(result.status.code, 74) << result.output;
      EXPECT_EQ(count_errors(result.output), 1) << result.output;
      EXPECT_THAT(result.output, HasSubstr("lockstep: error: cannot read batch 2"));
      if (GetParam() != "mpi") {
        EXPECT_THAT(result.output, HasSubstr(fmt::format("+-- rank {} failed", rank)));
      }
    }
  }
}

TEST_P(Faults, TellOnceWhatFailedOnAllWorkers) {
  for (const int workers : {2, 4}) {
    SCOPED_TRACE(workers);
    const os::CommandResult result = start(workers, "--do fail --rank -1");

    EXPECT_EQ(result.status.code, 74) << result.output;
    EXPECT_EQ(count_errors(result.output), 1) << result.output;
    if (GetParam() != "mpi") {  // the box names any of them
      EXPECT_THAT(result.output, HasSubstr("|   lockstep: error: cannot read batch 2"));
    }
  }
}

// No worker can report this: the launcher does.
TEST_P(Faults, LeaveAKilledWorkerToTheLauncher) {
  for (const int workers : {2, 4}) {
    for (const int rank : {0, 1}) {
      SCOPED_TRACE(fmt::format("rank {} of {}", rank, workers));
      const os::CommandResult result = start(workers, fmt::format("--do die --rank {}", rank));

      EXPECT_EQ(result.status.code, 128 + SIGKILL) << result.output;
      EXPECT_EQ(count_errors(result.output), 0) << result.output;
      EXPECT_THAT(result.output,
                  HasSubstr(GetParam() == "mpi" ? fmt::format("rank {} with PID", rank)
                                                : fmt::format("+-- rank {} failed", rank)));
    }
  }
}

// Started by hand: no launcher stops the survivor or reports the lost worker, which may be rank 0,
// the server of the store.
TEST_P(Faults, TellALostWorkerThatNoLauncherReports) {
  if (GetParam() == "mpi") {
    GTEST_SKIP() << "only mpirun can start it";
  }
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    const int port = (GetParam() == "gloo" ? 29831 : 29841) + rank;
    const os::CommandResult result = sh(fmt::format(
        "{}/lose_a_worker.sh {} {} {} --transport {}", kScripts, rank, port, kWorker, GetParam()));

    EXPECT_EQ(result.status.code, 75) << result.errors;
    EXPECT_EQ(count_errors(result.errors), 1) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("cannot finish"));
  }
}

INSTANTIATE_TEST_SUITE_P(Over,
                         Faults,
                         ::testing::Values("shared-memory", "gloo", "mpi"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace lockstep
