// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong between the workers of a gang, and the one message that says so.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <regex>

#include "os/command.h"
#include "os/files.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLockstep = LOCKSTEP_BIN_DIR "/lockstep";
const std::string kWorker = LOCKSTEP_TEST_DIR "/faults_worker";

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// Those that workers said; the launcher's summary repeats the last lines of one.
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

  // What the user sees, output and errors together.
  os::CommandResult start(int workers, const std::string& more) {
    const std::string worker = fmt::format("{} --stall-warning 1 {}", kWorker, more);
    os::CommandResult result =
        GetParam() == "mpi"
            ? sh(fmt::format("timeout 60 mpirun --allow-run-as-root --oversubscribe -np {} {}",
                             workers,
                             worker))
            : sh(fmt::format(
                  "timeout 60 {} run --nproc-per-node {} --run-dir run -- {} --transport {}",
                  kLockstep,
                  workers,
                  worker,
                  GetParam()));
    result.output += result.errors;
    return result;
  }

 private:
  os::TemporaryDirectory directory_;
};

TEST_P(Faults, NameAWorkerThatDoesNotCome) {
  const os::CommandResult result = start(3, "--do late --seconds 4");

  EXPECT_EQ(result.status.code, 0) << result.output;
  const std::regex warning(
      R"(rank 2 has not come to the exchange of gradients, all-reduce of 1 200 floats #\d+ )"
      R"(\(fc1\.weight, fc1\.bias\) for [12] s; rank 2 on \S+ was last seen busy with data for [12] s, )"
      R"(after barrier #\d+; ranks 0, 1 wait)");
  EXPECT_TRUE(std::regex_search(result.output, warning)) << result.output;
  // After one second, two and four; each time one worker for all.
  EXPECT_LE(count(result.output, "has not come"), 3) << result.output;
}

TEST_P(Faults, SayNothingOfAWorkerThatIsALittleLate) {
  const os::CommandResult result = start(2, "--do late --seconds 0.3");

  EXPECT_EQ(result.status.code, 0) << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr("has not come")));
}

TEST_P(Faults, TellWhichShapesDoNotMatch) {
  const os::CommandResult result = start(2, "--do shape");

  EXPECT_EQ(result.status.code, 64) << result.output;
  EXPECT_EQ(count_errors(result.output), 1) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("the workers make different calls"),
                    HasSubstr("rank 0: all-reduce of 1 200 floats"),
                    HasSubstr("rank 1: all-reduce of 300 000 floats")));
}

TEST_P(Faults, TellWhichCallsDoNotMatch) {
  const os::CommandResult result = start(2, "--do call");

  EXPECT_EQ(result.status.code, 64) << result.output;
  EXPECT_EQ(count_errors(result.output), 1) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("the workers make different calls"),
                    HasSubstr("rank 0: all-reduce of 1 200 floats"),
                    HasSubstr("rank 1: broadcast of 1 200 floats from rank 0")));
}

TEST_P(Faults, TellWhoEndedBeforeTheOthers) {
  const os::CommandResult result = start(2, "--do early -s ddp");

  EXPECT_EQ(result.status.code, 64) << result.output;
  EXPECT_EQ(count_errors(result.output), 1) << result.output;
  EXPECT_THAT(result.output,
              AllOf(AnyOf(HasSubstr("rank 1 ended before the others"),
                          HasSubstr("the workers make different calls")),
                    HasSubstr("rank 1: the end of the program"),
                    HasSubstr("rank 0: "),
                    HasSubstr("StrategyOptions::uneven"),
                    HasSubstr("Strategy::join()")));
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
