// SPDX-License-Identifier: Apache-2.0
//
// Tests --verify-strategies like a user runs it: four processes, every strategy, models that are
// hard to distribute.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <regex>

#include "common/os/command.h"
#include "common/os/files.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLockstep = LOCKSTEP_BIN_DIR "/lockstep";
const std::string kMnist = LOCKSTEP_BIN_DIR "/mnist";
const std::string kWorker = LOCKSTEP_TEST_DIR "/verify_worker";

os::CommandResult sh(const std::string& line) {
  const os::TemporaryDirectory directory;
  return os::run_command({"/bin/bash", "-c", line}, {.directory = directory.path()});
}

os::CommandResult verify(int workers, const std::string& program) {
  return sh(
      fmt::format("CUDA_VISIBLE_DEVICES= {} run --nproc-per-node {} -- {} "
                  "--verify-strategies",
                  kLockstep,
                  workers,
                  program));
}

int count(const std::string& text, const std::string& pattern) {
  const std::regex wanted(pattern);
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), wanted), {}));
}

class EveryStrategy : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryStrategy, TrainsAsOneProcessDoes) {
  const os::CommandResult result =
      verify(4, fmt::format("{} --model {} --steps 6", kWorker, GetParam()));

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("verdict: every strategy agrees with one process"));
  const size_t second_table = result.output.find("compared with stage 0");
  ASSERT_NE(second_table, std::string::npos) << result.output;
  // 28 rows: three strategies and four stages of a fourth, on one to four workers; eight numbers in
  // each.
  EXPECT_EQ(
      count(result.output.substr(0, second_table),
            R"((ddp|horovod|mirrored|deepspeed [0-3]) +[1-4]( +\d\.\de-\d\d| +0\.0e\+00){8})"),
      28)
      << result.output;
  // Sixteen rows in 16-bit types: four numbers for bf16, and four for fp16 if the CPU computes in
  // it.
  EXPECT_EQ(count(result.output.substr(second_table),
                  R"(deepspeed [0-3] +[1-4](( +\d\.\de-\d\d| +0\.0e\+00){4}){1,2} *\n)"),
            16)
      << result.output;
}

INSTANTIATE_TEST_SUITE_P(Models,
                         EveryStrategy,
                         ::testing::Values("cnn", "cnn-norm", "tied", "unused", "transformer"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(VerifyStrategies, NamesTheParameterWhenTheLossDependsOnTheWorker) {
  const os::CommandResult result =
      verify(2, kWorker + " --model tied --loss rank --steps 3 -s mirrored");

  EXPECT_EQ(result.status.code, 1) << result.output << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("verdict: STRATEGIES DIFFER"),
                    HasSubstr("-s mirrored on 2 workers, float64, plain"),
                    Not(HasSubstr("-s mirrored on 1 worker, float64, plain"))));
  EXPECT_EQ(count(result.output, R"('[a-z]+\.(weight|bias)' element \d+ is \S+, in one process)"),
            8)
      << result.output;
}

TEST(VerifyStrategies, FindsALossThatDependsOnWhichSamplesComeTogether) {
  const os::CommandResult result =
      verify(2, kWorker + " --model tied --loss batch --steps 3 -s ddp");

  EXPECT_EQ(result.status.code, 1) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("-s ddp on 1 worker, float64, accumulate"));
}

TEST(VerifyStrategies, NameHorovodsVariablesThatMeanNothingOnce) {
  const std::string variables =
      "HOROVOD_NUM_NCCL_STREAMS=2 HOROVOD_LOG_LEVEL=info HOROVOD_CYCLE_TIME=1";
  const std::string worker = kWorker + " --model tied --steps 2 --global-batch 8 --device cpu";
  const auto errors_of = [&](const std::string& more) {
    const os::CommandResult result = sh(fmt::format(
        "env {} {} run --nproc-per-node 2 -- {} {}", variables, kLockstep, worker, more));
    EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
    return result.output + result.errors;
  };
  const std::string warning =
      "ignoring these Horovod variables: HOROVOD_LOG_LEVEL, HOROVOD_NUM_NCCL_STREAMS";

  EXPECT_EQ(count(errors_of("--verify-strategies"), warning), 1);
  EXPECT_EQ(count(errors_of("-s horovod"), warning), 1);
  EXPECT_EQ(count(errors_of("-s ddp"), warning), 0);
}

class WrongStrategy : public ::testing::TestWithParam<std::string> {};

// Of 22 samples, parts of 8, 7 and 7: the difference is far above the rounding of either type.
TEST_P(WrongStrategy, IsFoundInBothTypes) {
  for (const char* model : {"tied", "transformer"}) {
    const os::CommandResult result = verify(
        3, fmt::format("{} --model {} --loss {} --steps 3 -s ddp", kWorker, model, GetParam()));

    EXPECT_EQ(result.status.code, 1) << result.output << result.errors;
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("verdict: STRATEGIES DIFFER"),
                      HasSubstr("-s ddp on 3 workers, float64, plain"),
                      HasSubstr("-s ddp on 3 workers, float32, plain"),
                      Not(HasSubstr("-s ddp on 1 worker, float64, plain"))));
  }
}

INSTANTIATE_TEST_SUITE_P(Gradients,
                         WrongStrategy,
                         ::testing::Values("undivided", "mean-of-means"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(VerifyStrategies, WorksAloneAndSaysHowToSeeMore) {
  const os::CommandResult result =
      sh(kMnist +
         " --generated-digits --net classic --device cpu --global-batch 8 --steps 2 "
         "--verify-strategies");

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("lockstep run --nproc-per-node 4"),
                    HasSubstr("dropout is disabled: dropout1, dropout2"),
                    HasSubstr("after 2 steps")));
}

TEST(VerifyStrategies, LeavesOutWhatOnlyRoundingMoves) {
  const os::CommandResult result =
      sh(kWorker +
         " --model transformer --optimizer adam --lr 0.001 --steps 4 --device cpu "
         "--verify-strategies");

  EXPECT_THAT(result.output, HasSubstr("except for rounding: qkv.bias (16 of 48 values)"));
}

TEST(VerifyStrategies, AreOpenToALoopOfOnesOwn) {
  const os::CommandResult asked =
      sh(kWorker + " --loop own-verified --steps 2 --device cpu --verify-strategies");
  const os::CommandResult ignored = sh(kWorker + " --loop own --device cpu --verify-strategies");

  EXPECT_EQ(asked.status.code, 0) << asked.errors;
  EXPECT_THAT(asked.output, HasSubstr("verdict: every strategy"));
  EXPECT_EQ(ignored.status.code, 64);
  EXPECT_THAT(ignored.errors,
              HasSubstr("cannot verify strategies: this program does not use Trainer::fit\n"
                        "  requested: --verify-strategies  (command line)\n"
                        "  try:       in the program: if (session.wants_verification()) "
                        "lockstep::verify_strategies(...)"));
}

TEST(VerifyStrategies, NeedSamplesForEveryMicroBatch) {
  const os::CommandResult result = verify(3, kWorker + " --global-batch 5");

  EXPECT_EQ(result.status.code, 64) << result.output;
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("cannot verify strategies: cannot split 5 samples among 3 "
                              "workers x 2 micro-batches"),
                    HasSubstr("--global-batch 6")));
}

TEST(VerifyStrategies, SayThatOneProcessDiverges) {
  const os::CommandResult result = verify(2, kWorker + " --model cnn --lr 1e30 --steps 9");

  EXPECT_EQ(result.status.code, 64) << result.output;
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("the weights of the single process are not finite"),
                    HasSubstr("--lr 1e+29")));
}

}  // namespace
}  // namespace lockstep
