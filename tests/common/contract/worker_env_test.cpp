// SPDX-License-Identifier: Apache-2.0
#include "common/contract/worker_env.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

// The second node of two has fewer workers than the first: 3 + 2.
WorkerSpec worker_on_second_node() {
  WorkerSpec spec;
  spec.rank = 4;
  spec.world_size = 5;
  spec.local_rank = 1;
  spec.local_world_size = 2;
  spec.node_rank = 1;
  spec.nodes = 2;
  spec.master_addr = "10.0.0.1";
  spec.master_port = 29400;
  spec.interface = "ib0";
  spec.run_id = "mnist-1";
  spec.run_directory = "/runs/mnist-1";
  spec.attempt = 2;
  spec.max_restarts = 3;
  return spec;
}

// As above, with the fields that only other programs read.
WorkerSpec fully_specified_worker() {
  WorkerSpec spec = worker_on_second_node();
  spec.role = "trainer";
  spec.cross_rank = 1;
  spec.cross_size = 2;
  spec.node = "node-b";
  spec.error_file = "/runs/mnist-1/errors/attempt-2/rank-4.json";
  spec.horovod_addr = "10.0.0.1";
  spec.horovod_port = 29401;
  spec.tensorflow_cluster = {"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.2:1", "10.0.0.2:2"};
  spec.roce_gid_index = 3;
  return spec;
}

TEST(WorkerEnv, WritesARankThatIsReadBack) {
  EXPECT_EQ(find_worker(to_environment(worker_on_second_node())), worker_on_second_node());
  EXPECT_EQ(find_worker(to_environment({})), WorkerSpec{});
}

// A file of torchrun, which may have started `lockstep run`, is not read by an agent of lockstep.
TEST(WorkerEnv, ReadsTheErrorFileOfThisRunOnly) {
  WorkerSpec spec = worker_on_second_node();
  spec.error_file = "/runs/mnist-1/logs/attempt-2/rank-4.error";
  os::Environment environment = to_environment(spec);
  EXPECT_EQ(find_worker(environment), spec);

  environment.insert_or_assign("TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic/0/error.json");
  EXPECT_EQ(find_worker(environment)->error_file, "");
  environment.erase("LOCKSTEP_RUN_DIR");
  EXPECT_EQ(find_worker(environment)->error_file, "");
}

TEST(WorkerEnv, SetsTheVariablesOfEveryLauncher) {
  const os::Environment expected = {
      // torchrun; torch.distributed.launch
      {"RANK", "4"},
      {"WORLD_SIZE", "5"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_NAME", "trainer"},
      {"ROLE_RANK", "4"},
      {"ROLE_WORLD_SIZE", "5"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "29400"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RUN_ID", "mnist-1"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", "/runs/mnist-1/errors/attempt-2/rank-4.json"},
      // horovodrun
      {"HOROVOD_HOSTNAME", "node-b"},
      {"HOROVOD_RANK", "4"},
      {"HOROVOD_SIZE", "5"},
      {"HOROVOD_LOCAL_RANK", "1"},
      {"HOROVOD_LOCAL_SIZE", "2"},
      {"HOROVOD_CROSS_RANK", "1"},
      {"HOROVOD_CROSS_SIZE", "2"},
      {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1"},
      {"HOROVOD_GLOO_RENDEZVOUS_PORT", "29401"},
      // deepspeed
      {"LOCAL_SIZE", "2"},
      {"CROSS_RANK", "1"},
      {"CROSS_SIZE", "2"},
      // Open MPI
      {"OMPI_COMM_WORLD_RANK", "4"},
      {"OMPI_COMM_WORLD_SIZE", "5"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"OMPI_COMM_WORLD_NODE_RANK", "1"},
      {"OMPI_UNIVERSE_SIZE", "5"},
      // TensorFlow
      {"TF_CONFIG",
       R"({"cluster":{"worker":["10.0.0.1:1","10.0.0.1:2","10.0.0.1:3","10.0.0.2:1","10.0.0.2:2"]},)"
       R"("task":{"type":"worker","index":4}})"},
      // lockstep
      {"LOCKSTEP_RUN_ID", "mnist-1"},
      {"LOCKSTEP_RUN_DIR", "/runs/mnist-1"},
      {"LOCKSTEP_INTERFACE", "ib0"},
  };

  const os::Environment variables = to_environment(fully_specified_worker());

  for (const auto& [name, value] : expected) {
    EXPECT_THAT(variables, Contains(Pair(name, value)));
  }
  EXPECT_EQ(variables.size(), expected.size());
}

TEST(WorkerEnv, OmitsWhatDoesNotExist) {
  const os::Environment variables = to_environment({});

  for (const char* name : {"TORCHELASTIC_ERROR_FILE",
                           "HOROVOD_HOSTNAME",
                           "HOROVOD_GLOO_RENDEZVOUS_ADDR",
                           "HOROVOD_GLOO_RENDEZVOUS_PORT",
                           "TF_CONFIG",
                           "LOCKSTEP_RUN_DIR",
                           "LOCKSTEP_INTERFACE"}) {
    EXPECT_FALSE(variables.contains(name)) << name;
  }
  EXPECT_EQ(variables.at("TORCHELASTIC_RUN_ID"), "none");
}

TEST(WorkerEnv, GivesTensorflowAClusterThatParses) {
  const auto config =
      nlohmann::json::parse(to_environment(fully_specified_worker()).at("TF_CONFIG"));

  EXPECT_EQ(config.at("cluster").at("worker").size(), 5U);
  EXPECT_EQ(config.at("cluster").at("worker").at(4), "10.0.0.2:2");
  EXPECT_EQ(config.at("task").at("type"), "worker");
  EXPECT_EQ(config.at("task").at("index"), 4);
}

TEST(WorkerEnv, GivesTensorflowNoClusterThatExecveRefuses) {
  WorkerSpec spec;
  spec.tensorflow_cluster.assign(5000, "10.0.0.1:40000");  // 17 bytes each with quotes and comma
  const auto config = nlohmann::json::parse(to_environment(spec).at("TF_CONFIG"));
  spec.tensorflow_cluster.assign(100000, "10.0.0.1:40000");

  EXPECT_EQ(config.at("cluster").at("worker").size(), 5000U);
  EXPECT_FALSE(to_environment(spec).contains("TF_CONFIG"));

  // The names fit, but not together with the braces around them.
  spec.tensorflow_cluster = {std::string(100 * 1024 - 3, 'x')};
  EXPECT_FALSE(to_environment(spec).contains("TF_CONFIG"));
}

TEST(WorkerEnv, AdvisesGently) {
  const os::Environment expected = {
      {"NCCL_SOCKET_IFNAME", "=ib0"},
      {"GLOO_SOCKET_IFNAME", "ib0"},
      {"TP_SOCKET_IFNAME", "ib0"},
      {"NCCL_IB_GID_INDEX", "3"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"USE_LIBUV", "0"},
      {"HOROVOD_CONTROLLER", "gloo"},
      {"HOROVOD_CPU_OPERATIONS", "gloo"},
      {"HOROVOD_GLOO_IFACE", "ib0"},
  };
  EXPECT_EQ(gentle_environment(fully_specified_worker()), expected);

  EXPECT_EQ(gentle_environment({}),
            (os::Environment{{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}, {"USE_LIBUV", "0"}}));
  WorkerSpec large;
  large.world_size = 1025;
  EXPECT_FALSE(gentle_environment(large).contains("USE_LIBUV"));
}

TEST(WorkerEnv, LetsHorovodMeetOnTheLoopbackOfOneNode) {
  WorkerSpec spec;
  spec.horovod_addr = "127.0.0.1";
  spec.horovod_port = 29401;
  EXPECT_THAT(gentle_environment(spec), Contains(Pair("HOROVOD_GLOO_IFACE", "lo")));

  spec.nodes = 2;
  EXPECT_FALSE(gentle_environment(spec).contains("HOROVOD_GLOO_IFACE"));
}

TEST(WorkerEnv, LeavesAloneWhatTheUserSet) {
  for (const auto& [name, value] : gentle_environment(fully_specified_worker())) {
    os::Environment environment = {{name, "mine"}};

    environment.merge(gentle_environment(fully_specified_worker()));

    EXPECT_EQ(environment.at(name), "mine");
    EXPECT_FALSE(to_environment(fully_specified_worker()).contains(name)) << name;
  }
}

TEST(WorkerEnv, PutsTheUsersInterfaceAboveTheLaunchers) {
  os::Environment environment = to_environment(worker_on_second_node());
  EXPECT_EQ(single_worker(environment).interface, "ib0");

  environment.insert_or_assign("GLOO_SOCKET_IFNAME", "eth1");
  EXPECT_EQ(single_worker(environment).interface, "eth1");
}

TEST(WorkerEnv, NeedsNoMoreThanRankAndWorldSize) {
  const auto spec = find_worker({{"RANK", "1"}, {"WORLD_SIZE", "2"}});

  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->local_rank, 1);
  EXPECT_EQ(spec->local_world_size, 2);
  EXPECT_EQ(spec->nodes, 1);
  EXPECT_EQ(spec->master_addr, "127.0.0.1");
  EXPECT_EQ(spec->master_port, 29500);
}

TEST(WorkerEnv, IsAbsentWithoutRankAndWorldSize) {
  EXPECT_EQ(find_worker({{"LOCAL_RANK", "0"}, {"MASTER_ADDR", "10.0.0.1"}}), std::nullopt);
}

TEST(WorkerEnv, PutsASingleWorkerIntoTheGivenRunDirectory) {
  const WorkerSpec spec = single_worker({{"LOCKSTEP_RUN_DIR", "/runs/a"}, {"RANK", "7"}});

  EXPECT_EQ(spec.rank, 0);
  EXPECT_EQ(spec.world_size, 1);
  EXPECT_EQ(spec.run_directory, "/runs/a");
}

TEST(WorkerEnv, NamesTheVariableThatDoesNotParse) {
  for (const char* text : {"", "one", "-1", "1.0", "9999999"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(
        [&] {
          find_worker({{"RANK", text}, {"WORLD_SIZE", "2"}});
        },
        ThrowsMessage<Error>(
            AllOf(HasSubstr(std::string("invalid RANK='") + text), HasSubstr("unset RANK"))));
  }
}

TEST(WorkerEnv, NamesBothVariablesThatContradict) {
  EXPECT_THAT(
      [] {
        find_worker({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("RANK:"), HasSubstr("WORLD_SIZE:"))));
  EXPECT_THAT(
      [] {
        find_worker(
            {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("LOCAL_RANK:"), HasSubstr("LOCAL_WORLD_SIZE:"))));
}

TEST(WorkerEnv, NamesTheOneThatIsMissing) {
  EXPECT_THAT(
      [] {
        find_worker({{"RANK", "2"}});
      },
      ThrowsMessage<Error>(HasSubstr("missing: WORLD_SIZE")));
  EXPECT_THAT(
      [] {
        find_worker({{"WORLD_SIZE", "2"}});
      },
      ThrowsMessage<Error>(HasSubstr("missing: RANK")));
}

TEST(WorkerSpec, KnowsTorchrunsOwnStore) {
  os::Environment environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  EXPECT_FALSE(find_worker(environment)->has_agent_store);
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_TRUE(find_worker(environment)->has_agent_store);
}

}  // namespace
}  // namespace lockstep::contract
