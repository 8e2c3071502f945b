// SPDX-License-Identifier: Apache-2.0
#include "training/comm/join.h"

#include <gmock/gmock.h>

#include "common/os/socket.h"
#include "lockstep/error.h"
#include "training/comm/lost_peer.h"
#include "training/comm/nccl.h"
#include "training/comm/process_group.h"
#include "training/comm/solo.h"
#include "training/comm/store.h"

namespace lockstep::comm {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no Error";
}

cluster::Placement two_workers() {
  cluster::Placement placement;
  placement.worker.world_size = 2;
  placement.worker.local_world_size = 2;
  placement.launched_by = cluster::LaunchedBy::Launcher;
  return placement;
}

TEST(JoinProcessGroup, IsSoloForOneWorker) {
  EXPECT_EQ(join_process_group({}, {}).communicator->kind(), "solo");
}

TEST(JoinProcessGroup, ListsTheTransportsWhenOneIsMisspelt) {
  EXPECT_EQ(message_of([] { join_process_group(two_workers(), {.transport = "glo"}); }),
            "unknown transport 'glo'\n"
            "  available: auto, shared-memory, gloo, node-first, mpi, nccl\n"
            "  try:       --transport gloo");
}

TEST(JoinProcessGroup, WantsGpusForNccl) {
  EXPECT_EQ(message_of([] { join_process_group(two_workers(), {.transport = "nccl"}); }),
            "cannot use NCCL: it needs GPUs, but this worker trains on a CPU\n"
            "  requested: --transport nccl, or --collective nccl\n"
            "  device:    cpu  (rank 0)\n"
            "  try:       --transport auto");
}

TEST(JoinProcessGroup, SaysThatABuildHasNoNccl) {
  if (has_nccl()) {
    GTEST_SKIP() << "this build has NCCL";
  }
  EXPECT_EQ(join_nccl(std::make_unique<Solo>(), torch::kCPU, false)->kind(), "solo");
  EXPECT_EQ(message_of([] { join_nccl(std::make_unique<Solo>(), torch::kCPU, true); }),
            "cannot use NCCL: this build of lockstep does not support it\n"
            "  try: build with a CUDA libtorch and nccl.h, or --transport auto");
}

TEST(JoinProcessGroup, WantsMpirunForMpi) {
  EXPECT_EQ(message_of([] { join_process_group(two_workers(), {.transport = "mpi"}); }),
            "cannot use transport 'mpi': mpirun did not start this program\n"
            "  try: mpirun -np 2 PROGRAM, srun --mpi=pmix PROGRAM, or drop --transport mpi");
}

TEST(JoinStore, ReportsThatThePortIsInUse) {
  contract::WorkerSpec spec;
  spec.world_size = 2;
  spec.master_port = os::free_port();
  const auto first = join_store(spec, std::chrono::seconds(5));

  EXPECT_EQ(message_of([&] { join_store(spec, std::chrono::seconds(5)); }),
            fmt::format("cannot start the rendezvous on 127.0.0.1:{0}: the port is in use\n"
                        "  port: {0}  (MASTER_PORT)\n"
                        "  try:  start with lockstep run, which finds a free port, or set another "
                        "MASTER_PORT",
                        spec.master_port));
}

TEST(JoinStore, ReportsThatNoServerAnswers) {
  contract::WorkerSpec spec;
  spec.rank = 1;
  spec.world_size = 2;
  spec.master_port = os::free_port();

  EXPECT_EQ(message_of([&] { join_store(spec, std::chrono::milliseconds(200)); }),
            fmt::format("cannot reach rank 0 on 127.0.0.1:{}\n"
                        "  waited: 0.2 s  (rank 1)\n"
                        "  try:    check that rank 0 is running and that this node can reach "
                        "MASTER_ADDR",
                        spec.master_port));
}

TEST(AwaitAll, NamesTheWorkersThatDoNotCome) {
  contract::WorkerSpec spec;
  spec.world_size = 3;
  spec.master_port = os::free_port();
  const auto store = join_store(spec, std::chrono::seconds(5));

  EXPECT_EQ(message_of([&] { await_all(store, spec, std::chrono::milliseconds(300)); }),
            "rendezvous timed out: not all workers arrived\n"
            "  missing: ranks 1, 2 of 3\n"
            "  waited:  0.3 s  (--timeout, rank 0)\n"
            "  try:     check what these workers do before they join, or increase --timeout");
}

TEST(AwaitAll, CountsEachAttemptAnew) {
  contract::WorkerSpec spec;
  spec.world_size = 2;
  spec.master_port = os::free_port();
  const auto server = join_store(spec, std::chrono::seconds(5));
  spec.has_agent_store = true;
  for (const int attempt : {0, 1}) {
    spec.attempt = attempt;
    const auto store = join_store(spec, std::chrono::seconds(5));
    EXPECT_THAT(message_of([&] { await_all(store, spec, std::chrono::milliseconds(200)); }),
                ::testing::HasSubstr("missing: rank 1 of 2"));
    contract::WorkerSpec second = spec;
    second.rank = 1;
    const auto other = join_store(second, std::chrono::seconds(5));
    EXPECT_EQ(message_of([&] { await_all(other, second, std::chrono::seconds(5)); }), "no Error");
  }
}

TEST(AwaitAll, DistinguishesALostStoreFromLateWorkers) {
  contract::WorkerSpec spec;
  spec.world_size = 2;
  spec.master_port = os::free_port();
  auto store = join_store(spec, std::chrono::seconds(5));
  contract::WorkerSpec second = spec;
  second.rank = 1;
  const auto other = join_store(second, std::chrono::seconds(5));
  store.reset();

  EXPECT_THAT(message_of([&] { await_all(other, second, std::chrono::seconds(20)); }),
              ::testing::AllOf(::testing::HasSubstr("lost the connection to the store\n  reason: "),
                               ::testing::HasSubstr("try:    check the last output of rank 0")));
}

TEST(JoinGloo, ListsTheInterfacesWhenOneDoesNotExist) {
  if (!has_gloo()) {
    GTEST_SKIP() << "built without gloo";
  }
  contract::WorkerSpec spec;
  spec.world_size = 2;
  spec.interface = "nosuch0";
  spec.master_port = os::free_port();
  const auto store = join_store(spec, std::chrono::seconds(5));

  EXPECT_THAT(
      message_of([&] { join_gloo(store, spec, std::chrono::seconds(5)); }),
      ::testing::MatchesRegex("network interface 'nosuch0' does not exist\n"
                              "  requested: nosuch0  .LOCKSTEP_INTERFACE or GLOO_SOCKET_IFNAME.\n"
                              "  available: .*lo.*  .this node, rank 0.\n"
                              "  try:       set the variable to one of these, or unset it"));
}

TEST(LostPeer, TurnsLibtorchsTextsIntoAnErrorThatAsksForAnotherAttempt) {
  const std::runtime_error gloo("[../gloo/transport/tcp/pair.cc:589] Connection reset by peer\nx");
  try {
    throw_if_lost_peer("all-reduce", gloo);
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::TryAgain);
    EXPECT_STREQ(error.what(),
                 "cannot finish all-reduce: lost another worker\n"
                 "  reason: [../gloo/transport/tcp/pair.cc:589] Connection reset by peer  "
                 "(libtorch)");
  }
}

TEST(LostPeer, LeavesOtherFaultsAlone) {
  throw_if_lost_peer("all-reduce", std::runtime_error("mat1 and mat2 shapes cannot be multiplied"));
  throw_if_lost_peer("all-reduce", Error(ExitCode::Usage, "timed out, but ours"));
}

}  // namespace
}  // namespace lockstep::comm
