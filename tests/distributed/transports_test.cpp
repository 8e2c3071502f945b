// SPDX-License-Identifier: Apache-2.0
//
// Tests of transports that need real processes: calls that do not match, and several nodes, which
// are simulated by processes of this machine.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "common/os/command.h"
#include "common/os/files.h"
#include "common/os/socket.h"
#include "distributed/drift_lines.h"
#include "training/comm/process_group.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

const std::string kLockstep = LOCKSTEP_BIN_DIR "/lockstep";
const std::string kWorker = LOCKSTEP_TEST_DIR "/distributed_worker";
const std::string kCallsWorker = LOCKSTEP_TEST_DIR "/calls_worker";
constexpr const char* kHint = "make the same calls on every worker";

os::CommandResult sh(const std::string& line) {
  const os::TemporaryDirectory directory;
  return os::run_command({"/bin/bash", "-c", line}, {.directory = directory.path()});
}

os::CommandResult launch(int workers, const std::string& program) {
  return sh(
      fmt::format("{} run --nproc-per-node {} --run-dir run -- {}", kLockstep, workers, program));
}

struct Fault {
  const char* name;
  const char* task;
  const char* message;
  const char* sentence = "workers made different collective calls";
  const char* hint = kHint;
};

class DifferentCalls : public ::testing::TestWithParam<Fault> {};

TEST_P(DifferentCalls, EndWithOneMessageThatNamesTheRanks) {
  const os::CommandResult result =
      launch(3, fmt::format("{} --do {} --transport shared-memory", kCallsWorker, GetParam().task));

  EXPECT_EQ(result.status.code, 64) << result.output << result.errors;
  EXPECT_THAT(result.errors, HasSubstr(GetParam().sentence));
  EXPECT_THAT(result.errors, HasSubstr(GetParam().message));
  EXPECT_THAT(result.errors, HasSubstr("rank 1: "));
  EXPECT_THAT(result.errors, HasSubstr(GetParam().hint));
}

INSTANTIATE_TEST_SUITE_P(
    Every,
    DifferentCalls,
    ::testing::Values(
        Fault{"Barrier", "different-calls", "all-reduce of 1 200 floats"},
        Fault{"Sizes", "different-sizes", "all-reduce of 100 000 floats"},
        Fault{"MissedBroadcast", "missed-broadcast", "broadcast of 10 floats from rank 0"},
        Fault{"OutOfData",
              "out-of-data",
              "the end of the program",
              "rank 1 finished before the others",
              "Strategy::join()"}),
    [](const auto& each) { return each.param.name; });

TEST(DifferentCallsOverGloo, AreNoticedWhenSizesDiffer) {
  if (!comm::has_gloo()) {
    GTEST_SKIP() << "built without gloo";
  }
  const os::CommandResult result =
      launch(2, kCallsWorker + " --do different-sizes --transport gloo");

  EXPECT_EQ(result.status.code, 64) << result.output << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("workers made different collective calls"));
  EXPECT_THAT(result.errors, HasSubstr(kHint));
}

// Starts `nodes` x `workers` processes on this machine that act as several nodes.
os::CommandResult launch_nodes(int nodes, int workers, const std::string& program) {
  std::string line = fmt::format(
      "export OMP_NUM_THREADS=1 MASTER_ADDR=127.0.0.1 MASTER_PORT={} WORLD_SIZE={} "
      "LOCAL_WORLD_SIZE={} GROUP_WORLD_SIZE={}; pids=; ",
      os::free_port(),
      nodes * workers,
      workers,
      nodes);
  for (int rank = 0; rank < nodes * workers; ++rank) {
    line += fmt::format("RANK={} LOCAL_RANK={} GROUP_RANK={} {} & pids=\"$pids $!\"; ",
                        rank,
                        rank % workers,
                        rank / workers,
                        program);
  }
  return sh(line + "code=0; for pid in $pids; do wait $pid || code=$?; done; exit $code");
}

class NodeFirst : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  void SetUp() override {
    if (!comm::has_gloo()) {
      GTEST_SKIP() << "built without gloo";
    }
  }
};

TEST_P(NodeFirst, KeepsEveryPromiseOfACommunicator) {
  const auto [nodes, workers] = GetParam();
  const os::CommandResult result = launch_nodes(nodes, workers, kWorker + " --do collectives");

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("collectives over node-first are right"));
}

TEST_P(NodeFirst, TrainsAsOneProcessDoes) {
  const auto [nodes, workers] = GetParam();
  const os::CommandResult result =
      launch_nodes(nodes, workers, kWorker + " --do drift --transport node-first");

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  expect_small_drift(result.output);
}

INSTANTIATE_TEST_SUITE_P(
    Every, NodeFirst, ::testing::Values(std::tuple(2, 2), std::tuple(3, 2)), [](const auto& each) {
      return fmt::format("{}x{}", std::get<0>(each.param), std::get<1>(each.param));
    });

TEST(NodeFirstJoin, IsNotForOneNode) {
  const os::CommandResult result = launch(2, kWorker + " --do collectives --transport node-first");

  EXPECT_EQ(result.status.code, 64) << result.output << result.errors;
  for (const char* line : {"cannot use --transport node-first for these workers",
                           "found: all workers are on one node",
                           "try:   --transport shared-memory"}) {
    EXPECT_THAT(result.errors, HasSubstr(line));
  }
}

TEST(NodeFirstJoin, IsNotForNodesOfOneWorker) {
  const os::CommandResult asked =
      launch_nodes(2, 1, kWorker + " --do collectives --transport node-first");
  EXPECT_EQ(asked.status.code, 64) << asked.output << asked.errors;
  EXPECT_THAT(asked.errors, HasSubstr("  found: node 0 has one worker\n  try:   --transport gloo"));
}

TEST(NodeFirstJoin, HonoursHorovodsVariable) {
  if (!comm::has_gloo()) {
    GTEST_SKIP() << "built without gloo";
  }
  const os::CommandResult result =
      launch_nodes(2, 2, "env HOROVOD_HIERARCHICAL_ALLREDUCE=0 " + kWorker + " --do collectives");

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("collectives over gloo are right"));
}

}  // namespace
}  // namespace lockstep
