// SPDX-License-Identifier: Apache-2.0
//
// Tests NCCL with real processes under the launcher, all on one GPU.
#include "training/comm/nccl.h"

#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/cuda.h>

#include "common/os/command.h"
#include "common/os/files.h"
#include "support/step_events.h"
#include "training/comm/stream_mark.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLockstep = LOCKSTEP_BIN_DIR "/lockstep";
const std::string kWorker = LOCKSTEP_TEST_DIR "/distributed_worker";
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
  EXPECT_THAT(result.output + result.errors,
              AllOf(HasSubstr("workers share a GPU: using shared-memory instead of NCCL"),
                    HasSubstr("collectives over shared-memory are right")));
}

// Processes that share a GPU take turns of some milliseconds each: two workers and two steps only.
// docs/results has four workers.
TEST_F(Nccl, LetsEveryStrategyTrainAsOneProcessDoes) {
  for (const std::string model : {"cnn", "tied"}) {
    const os::CommandResult result =
        run(2,
            fmt::format("{} --model {} --steps 2 --device cuda --transport nccl "
                        "--verify-strategies",
                        kVerify,
                        model));

    EXPECT_EQ(result.status.code, 0) << model << "\n" << result.output << result.errors;
    EXPECT_THAT(result.output, HasSubstr("verdict: every strategy agrees with one process"));
  }
}

// Sums over the later step events of a rank.
struct Reported {
  double compute = 0;
  double exchange = 0;
  double norm = 0;  // the last
  int events = 0;
};

Reported read_steps(const std::filesystem::path& run, int rank) {
  Reported reported;
  for (const contract::Event& event : step_events(run, rank)) {
    // The first calls are compared on the host, and those of the first step establish connections.
    if (contract::find_number(event, "step").value() <= 45) {
      continue;
    }
    ++reported.events;
    reported.compute += contract::find_number(event, "compute_seconds").value();
    reported.exchange += contract::find_number(event, "exchange_seconds").value_or(-1);
    reported.norm = contract::find_number(event, "gradient_norm").value_or(-1);
  }
  return reported;
}

// The GPU waits for the exchange and computes the norm; the host does neither.
TEST_F(Nccl, ReportsWhichRankWaitsForWhichUnderEveryStrategy) {
  if (!comm::kHasStreamTimes) {
    GTEST_SKIP() << "needs libtorch 2.6";
  }
  double norm = 0;
  for (const std::string strategy : {"ddp",
                                     "ddp --no-overlap",
                                     "horovod",
                                     "mirrored",
                                     "deepspeed --zero-stage 1",
                                     "deepspeed --zero-stage 3"}) {
    const os::TemporaryDirectory directory;
    const os::CommandResult result = os::run_command(
        {"/bin/bash",
         "-c",
         fmt::format("{} run --nproc-per-node 2 --share-gpus --run-dir run -- {} --do one-is-slow "
                     "--device cuda --transport nccl -s {}",
                     kLockstep,
                     kWorker,
                     strategy)},
        {.directory = directory.path()});

    ASSERT_EQ(result.status.code, 0) << strategy << result.output << result.errors;
    const std::filesystem::path run = directory.path() / "run";
    const std::array<Reported, 2> reported = {read_steps(run, 0), read_steps(run, 1)};
    EXPECT_GT(reported[0].events, 0) << strategy;
    // About 25 steps of 30 ms.
    EXPECT_GT(reported[0].exchange, 0.3) << strategy;
    EXPECT_GT(reported[0].exchange, reported[1].exchange + 0.2) << strategy;
    EXPECT_GT(reported[1].compute, reported[0].compute + 0.2) << strategy;
    EXPECT_GT(reported[0].norm, 0) << strategy;
    EXPECT_EQ(reported[0].norm, reported[1].norm) << strategy;
    norm = norm == 0 ? reported[0].norm : norm;
    EXPECT_NEAR(reported[0].norm, norm, 1e-3 * norm) << strategy;
  }
}

// A worker that waits for the lost one hangs here until the time limit of the test.
TEST_F(Nccl, EndsSoonWhenAPeerDies) {
  const os::CommandResult result =
      run(2, kWorker + " --do lose-a-peer --device cuda --transport nccl");

  EXPECT_NE(result.status.code, 0);
  EXPECT_THAT(result.output + result.errors, HasSubstr("SIGKILL"));
}

// Without a launcher that stops the other workers, a worker must detect the loss itself.
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
