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
WorkerPlace place_on_second_node() {
  WorkerPlace place;
  place.rank = 4;
  place.world_size = 5;
  place.local_rank = 1;
  place.local_world_size = 2;
  place.node_rank = 1;
  place.nodes = 2;
  place.master_addr = "10.0.0.1";
  place.master_port = 29400;
  place.interface = "ib0";
  place.run_id = "mnist-1";
  place.run_directory = "/runs/mnist-1";
  place.attempt = 2;
  place.max_restarts = 3;
  return place;
}

// As above, with the fields that only other programs read.
WorkerPlace place_for_everybody() {
  WorkerPlace place = place_on_second_node();
  place.role = "trainer";
  place.cross_rank = 1;
  place.cross_size = 2;
  place.node = "node-b";
  place.error_file = "/runs/mnist-1/errors/attempt-2/rank-4.json";
  place.horovod_addr = "10.0.0.1";
  place.horovod_port = 29401;
  place.tensorflow_cluster = {"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.2:1", "10.0.0.2:2"};
  place.roce_gid_index = 3;
  return place;
}

TEST(WorkerEnv, WritesARankThatIsReadBack) {
  EXPECT_EQ(find_place(to_environment(place_on_second_node())), place_on_second_node());
  EXPECT_EQ(find_place(to_environment({})), WorkerPlace{});
}

// A file of torchrun, which may have started `lockstep run`, is not read by an agent of lockstep.
TEST(WorkerEnv, ReadsTheErrorFileOfThisRunOnly) {
  WorkerPlace place = place_on_second_node();
  place.error_file = "/runs/mnist-1/logs/attempt-2/rank-4.error";
  os::Environment environment = to_environment(place);
  EXPECT_EQ(find_place(environment), place);

  environment.insert_or_assign("TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic/0/error.json");
  EXPECT_EQ(find_place(environment)->error_file, "");
  environment.erase("LOCKSTEP_RUN_DIR");
  EXPECT_EQ(find_place(environment)->error_file, "");
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

  const os::Environment variables = to_environment(place_for_everybody());

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
  const auto config = nlohmann::json::parse(to_environment(place_for_everybody()).at("TF_CONFIG"));

  EXPECT_EQ(config.at("cluster").at("worker").size(), 5U);
  EXPECT_EQ(config.at("cluster").at("worker").at(4), "10.0.0.2:2");
  EXPECT_EQ(config.at("task").at("type"), "worker");
  EXPECT_EQ(config.at("task").at("index"), 4);
}

TEST(WorkerEnv, GivesTensorflowNoClusterThatExecveRefuses) {
  WorkerPlace place;
  place.tensorflow_cluster.assign(5000, "10.0.0.1:40000");  // 17 bytes each with quotes and comma
  const auto config = nlohmann::json::parse(to_environment(place).at("TF_CONFIG"));
  place.tensorflow_cluster.assign(100000, "10.0.0.1:40000");

  EXPECT_EQ(config.at("cluster").at("worker").size(), 5000U);
  EXPECT_FALSE(to_environment(place).contains("TF_CONFIG"));

  // The names fit, but not together with the braces around them.
  place.tensorflow_cluster = {std::string(100 * 1024 - 3, 'x')};
  EXPECT_FALSE(to_environment(place).contains("TF_CONFIG"));
}

TEST(WorkerEnv, AdvisesGently) {
  const os::Environment expected = {
      {"NCCL_SOCKET_IFNAME", "=ib0"},
      {"GLOO_SOCKET_IFNAME", "ib0"},
      {"TP_SOCKET_IFNAME", "ib0"},
      {"NCCL_IB_GID_INDEX", "3"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"HOROVOD_CONTROLLER", "gloo"},
      {"HOROVOD_CPU_OPERATIONS", "gloo"},
      {"HOROVOD_GLOO_IFACE", "ib0"},
  };
  EXPECT_EQ(gentle_environment(place_for_everybody()), expected);

  EXPECT_EQ(gentle_environment({}), (os::Environment{{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}}));
}

TEST(WorkerEnv, LetsHorovodMeetOnTheLoopbackOfOneNode) {
  WorkerPlace place;
  place.horovod_addr = "127.0.0.1";
  place.horovod_port = 29401;
  EXPECT_THAT(gentle_environment(place), Contains(Pair("HOROVOD_GLOO_IFACE", "lo")));

  place.nodes = 2;
  EXPECT_FALSE(gentle_environment(place).contains("HOROVOD_GLOO_IFACE"));
}

TEST(WorkerEnv, LeavesAloneWhatTheUserSet) {
  for (const auto& [name, value] : gentle_environment(place_for_everybody())) {
    os::Environment environment = {{name, "mine"}};

    environment.merge(gentle_environment(place_for_everybody()));

    EXPECT_EQ(environment.at(name), "mine");
    EXPECT_FALSE(to_environment(place_for_everybody()).contains(name)) << name;
  }
}

TEST(WorkerEnv, PutsTheUsersInterfaceAboveTheLaunchers) {
  os::Environment environment = to_environment(place_on_second_node());
  EXPECT_EQ(place_alone(environment).interface, "ib0");

  environment.insert_or_assign("GLOO_SOCKET_IFNAME", "eth1");
  EXPECT_EQ(place_alone(environment).interface, "eth1");
}

TEST(WorkerEnv, NeedsNoMoreThanRankAndWorldSize) {
  const auto place = find_place({{"RANK", "1"}, {"WORLD_SIZE", "2"}});

  ASSERT_TRUE(place);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_world_size, 2);
  EXPECT_EQ(place->nodes, 1);
  EXPECT_EQ(place->master_addr, "127.0.0.1");
  EXPECT_EQ(place->master_port, 29500);
}

TEST(WorkerEnv, IsAbsentWithoutRankAndWorldSize) {
  EXPECT_EQ(find_place({{"LOCAL_RANK", "0"}, {"MASTER_ADDR", "10.0.0.1"}}), std::nullopt);
}

TEST(WorkerEnv, PutsASingleWorkerIntoTheGivenRunDirectory) {
  const WorkerPlace place = place_alone({{"LOCKSTEP_RUN_DIR", "/runs/a"}, {"RANK", "7"}});

  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.world_size, 1);
  EXPECT_EQ(place.run_directory, "/runs/a");
}

TEST(WorkerEnv, NamesTheVariableThatDoesNotParse) {
  for (const char* text : {"", "one", "-1", "1.0", "9999999"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(
        [&] {
          find_place({{"RANK", text}, {"WORLD_SIZE", "2"}});
        },
        ThrowsMessage<Error>(
            AllOf(HasSubstr(std::string("cannot read RANK='") + text), HasSubstr("unset RANK"))));
  }
}

TEST(WorkerEnv, NamesBothVariablesThatContradict) {
  EXPECT_THAT(
      [] {
        find_place({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("RANK:"), HasSubstr("WORLD_SIZE:"))));
  EXPECT_THAT(
      [] {
        find_place(
            {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("LOCAL_RANK:"), HasSubstr("LOCAL_WORLD_SIZE:"))));
}

TEST(WorkerEnv, NamesTheOneThatIsMissing) {
  EXPECT_THAT(
      [] {
        find_place({{"RANK", "2"}});
      },
      ThrowsMessage<Error>(HasSubstr("missing: WORLD_SIZE")));
  EXPECT_THAT(
      [] {
        find_place({{"WORLD_SIZE", "2"}});
      },
      ThrowsMessage<Error>(HasSubstr("missing: RANK")));
}

TEST(WorkerPlace, KnowsTorchrunsOwnStore) {
  os::Environment environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  EXPECT_FALSE(find_place(environment)->has_agent_store);
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_TRUE(find_place(environment)->has_agent_store);
}

}  // namespace
}  // namespace lockstep::contract
