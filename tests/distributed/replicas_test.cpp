// SPDX-License-Identifier: Apache-2.0
//
// Tests -s mirrored with several replicas in one process, started like a user starts it.
#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "common/os/command.h"
#include "common/os/files.h"
#include "lockstep/checkpoint.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kLockstep = LOCKSTEP_BIN_DIR "/lockstep";
const std::string kMnist = LOCKSTEP_BIN_DIR "/mnist";

class Replicas : public ::testing::Test {
 protected:
  os::CommandResult sh(const std::string& line) {
    return os::run_command({"/bin/bash", "-c", "export CUDA_VISIBLE_DEVICES=; " + line},
                           {.directory = directory_.path()});
  }

  // Starts `processes` workers with the launcher, with the run directory `run`.
  os::CommandResult launch(int processes,
                           const std::string& run,
                           const std::string& more,
                           const std::string& net = "mlp") {
    return sh(
        fmt::format("{} run --nproc-per-node {} --run-dir {} -- {} --generated-digits --net {} {}",
                    kLockstep,
                    processes,
                    run,
                    kMnist,
                    net,
                    more));
  }

  NamedTensors weights(const std::string& run) { return load_weights(path() / run / "model.pt"); }

  std::filesystem::path path() const { return directory_.path(); }

 private:
  os::TemporaryDirectory directory_;
};

double largest_difference(const NamedTensors& a, const NamedTensors& b) {
  EXPECT_FALSE(a.empty());
  EXPECT_EQ(a.size(), b.size());
  double maximum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    maximum = std::max(maximum, (a[i].second - b[i].second).abs().max().item<double>());
  }
  return maximum;
}

TEST_F(Replicas, TrainAsProcessesDo) {
  const std::string steps = "--steps 40 --no-validation ";
  const os::CommandResult four = launch(4, "four", steps + "-s ddp");
  const os::CommandResult two = launch(2, "two", steps + "-s mirrored --replicas 2");
  const os::CommandResult one = launch(1, "one", steps + "-s mirrored --replicas 4");

  EXPECT_EQ(four.status.code, 0) << four.output << four.errors;
  EXPECT_EQ(two.status.code, 0) << two.output << two.errors;
  EXPECT_EQ(one.status.code, 0) << one.output << one.errors;
  EXPECT_THAT(two.output, HasSubstr("-s mirrored on 4 workers (threads over shared-memory)"));
  EXPECT_THAT(one.output, HasSubstr("-s mirrored on 4 workers (threads)"));
  EXPECT_LE(largest_difference(weights("four"), weights("two")), 1e-5);
  EXPECT_LE(largest_difference(weights("four"), weights("one")), 1e-5);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(
        std::filesystem::exists(path() / "two" / "events" / fmt::format("rank-{}.jsonl", rank)));
  }
}

TEST_F(Replicas, GoOnFromACheckpoint) {
  const std::string mirrored = "-s mirrored --replicas 2 --no-validation --schedule constant ";
  const os::CommandResult whole = launch(1, "whole", mirrored + "--steps 20");
  const os::CommandResult first = launch(1, "halves", mirrored + "--steps 9");
  const os::CommandResult second = launch(1, "halves", mirrored + "--steps 20 --resume auto");

  EXPECT_EQ(whole.status.code, 0) << whole.errors;
  EXPECT_EQ(first.status.code, 0) << first.errors;
  EXPECT_EQ(second.status.code, 0) << second.errors;
  EXPECT_THAT(second.errors + second.output, HasSubstr("resumed at step 9"));
  EXPECT_EQ(largest_difference(weights("whole"), weights("halves")), 0);
}

TEST_F(Replicas, ShareOutBatchNormsStatisticsToo) {
  const std::string steps = "--steps 5 --no-validation --sync-batchnorm --conv im2col ";
  const os::CommandResult processes = launch(2, "processes", steps + "-s mirrored", "cnn");
  const os::CommandResult replicas =
      launch(1, "replicas", steps + "-s mirrored --replicas 2", "cnn");

  EXPECT_EQ(processes.status.code, 0) << processes.errors;
  EXPECT_EQ(replicas.status.code, 0) << replicas.errors;
  EXPECT_LE(largest_difference(weights("processes"), weights("replicas")), 1e-5);
}

TEST_F(Replicas, EndTogetherWithOneMessage) {
  for (const int processes : {1, 2}) {
    const os::CommandResult result = sh(fmt::format(
        "{} run --nproc-per-node {} --run-dir run{} -- {} --data-dir nowhere -s mirrored "
        "--replicas 2",
        kLockstep,
        processes,
        processes,
        kMnist));
    EXPECT_EQ(result.status.code, 74) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("lockstep data fetch mnist"));
  }
}

TEST_F(Replicas, StopAtAStepOnSigterm) {
  const os::CommandResult stopped = sh(fmt::format(
      "{}/tests/distributed/scripts/stop_at_first_step.sh run {} --generated-digits --net mlp "
      "--epochs 500 --no-validation -s mirrored --replicas 2 --run-dir run",
      LOCKSTEP_SOURCE_DIR,
      kMnist));

  EXPECT_EQ(stopped.status.code, 75) << stopped.output << stopped.errors;
  EXPECT_THAT(stopped.output + stopped.errors, HasSubstr("stopped at step"));
  EXPECT_EQ(list_checkpoints(path() / "run" / "checkpoints").size(), 1U);
}

TEST_F(Replicas, ShareOutWholeFilesOnlyWhereThereAreEnough) {
  const os::CommandResult refused =
      launch(1, "refused", "-s mirrored --replicas 2 --auto-shard file --steps 3");
  const os::CommandResult data =
      launch(1, "data", "-s mirrored --replicas 2 --auto-shard auto --steps 3 --no-validation");
  const os::CommandResult off =
      launch(1, "off", "-s mirrored --replicas 2 --auto-shard off --steps 3 --no-validation");

  EXPECT_EQ(refused.status.code, 64) << refused.output;
  EXPECT_THAT(refused.errors,
              AllOf(HasSubstr("fewer files than workers"), HasSubstr("--auto-shard data")));
  EXPECT_EQ(data.status.code, 0) << data.errors;
  EXPECT_THAT(data.output, HasSubstr("samples dropped"));
  EXPECT_EQ(off.status.code, 0) << off.errors;
  EXPECT_THAT(off.output, HasSubstr("no sharding"));
}

TEST_F(Replicas, ExchangeOverTheCollectiveThatIsNamed) {
  const std::string steps = "--steps 20 --no-validation -s mirrored --collective ";
  const os::CommandResult ring = launch(2, "ring", steps + "ring");
  const os::CommandResult automatic = launch(2, "auto", steps + "auto");
  const os::CommandResult unknown = launch(1, "unknown", steps + "tree");

  ASSERT_EQ(ring.status.code, 0) << ring.errors;
  ASSERT_EQ(automatic.status.code, 0) << automatic.errors;
  EXPECT_THAT(ring.output, HasSubstr("-s mirrored on 2 workers (gloo)"));
  EXPECT_THAT(automatic.output, HasSubstr("-s mirrored on 2 workers (shared-memory)"));
  EXPECT_EQ(largest_difference(weights("ring"), weights("auto")), 0);  // a sum of two
  EXPECT_EQ(unknown.status.code, 64);
  EXPECT_THAT(unknown.output + unknown.errors, HasSubstr("'tree'"));
}

TEST_F(Replicas, RefuseNcclWhichTheyDoNotUse) {
  const os::CommandResult result =
      sh(fmt::format("{} --generated-digits -s mirrored --replicas 2 --collective nccl", kMnist));

  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors,
              ::testing::HasSubstr(
                  "cannot use NCCL between replicas: they reduce gradients in host memory\n"
                  "  replicas: 2  (in this process)\n"
                  "  try:      --replicas 1, and lockstep run with one worker per GPU; or "
                  "--collective auto"));
}

}  // namespace
}  // namespace lockstep
