// SPDX-License-Identifier: Apache-2.0
//
// Workers that exchange over NCCL, all on one GPU, as real processes under the launcher.
#include "comm/nccl.h"

#include <chrono>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/cuda.h>

#include "os/command.h"
#include "os/files.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLockstep = LOCKSTEP_BIN_DIR "/lockstep";
const std::string kWorker = LOCKSTEP_TEST_DIR "/gang_worker";
const std::string kVerify = LOCKSTEP_TEST_DIR "/verify_worker";

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!comm::has_nccl() || !torch::cuda::is_available()) {
      GTEST_SKIP() << "needs a build with NCCL, and a GPU";
    }
  }
};

os::CommandResult run(int workers, const std::string& program) {
  const os::TemporaryDirectory directory;
  return os::run_command(
      {"/bin/bash",
       "-c",
       fmt::format("{} run --nproc-per-node {} --share-gpus -- {}", kLockstep, workers, program)},
      {.directory = directory.path()});
}

TEST_F(Nccl, KeepsEveryPromiseOfACommunicator) {
  for (const int workers : {2, 3}) {
    const os::CommandResult result = run(workers, kWorker + " --device cuda --transport nccl");

    EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
    EXPECT_THAT(result.output, HasSubstr("collectives over nccl are right")) << result.errors;
  }
}

TEST_F(Nccl, IsNotTakenUnaskedWhereWorkersShareAGpu) {
  const os::CommandResult result = run(2, kWorker + " --device cuda");

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(
      result.output + result.errors,
      AllOf(HasSubstr("workers share a GPU: gradients travel by shared-memory, not by NCCL"),
            HasSubstr("collectives over shared-memory are right")));
}

// Processes that share a GPU take turns on it, milliseconds each: two workers and two steps. Four
// are in docs/results.
TEST_F(Nccl, LetsEveryStrategyTrainAsOneProcessDoes) {
  for (const std::string model : {"cnn", "tied"}) {
    const os::CommandResult result =
        run(2,
            fmt::format("{} --model {} --steps 2 --device cuda --transport nccl "
                        "--verify-strategies",
                        kVerify,
                        model));

    EXPECT_EQ(result.status.code, 0) << model << "\n" << result.output << result.errors;
    EXPECT_THAT(result.output, HasSubstr("verdict: every strategy trains as one process does"));
  }
}

TEST_F(Nccl, EndsSoonWhenAPeerDies) {
  const auto begun = std::chrono::steady_clock::now();
  const os::CommandResult result =
      run(2, kWorker + " --do lose-a-peer --device cuda --transport nccl");
  const auto seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();

  EXPECT_NE(result.status.code, 0);
  EXPECT_THAT(result.output + result.errors, HasSubstr("SIGKILL"));
  EXPECT_LT(seconds, 30);
}

// Without a launcher that ends the others, a worker finds out by itself.
TEST_F(Nccl, GivesUpByItselfWhenAPeerDies) {
  const os::TemporaryDirectory directory;
  const std::string place =
      "MASTER_ADDR=127.0.0.1 MASTER_PORT=29817 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2";
  const std::string program = kWorker + " --do lose-a-peer --device cuda --transport nccl";
  const os::CommandResult result = os::run_command(
      {"/bin/bash",
       "-c",
       fmt::format("({0} RANK=1 LOCAL_RANK=1 {1} > one 2>&1 &); {0} RANK=0 LOCAL_RANK=0 {1}",
                   place,
                   program)},
      {.directory = directory.path()});

  EXPECT_EQ(result.status.code, 75) << result.output << result.errors;
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("lockstep: error: cannot finish"), Not(HasSubstr("CUDA error"))));
}

}  // namespace
}  // namespace lockstep
