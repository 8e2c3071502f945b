// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/node_spec.h"

#include <gmock/gmock.h>

#include "common/cluster/launcher_task.h"

namespace lockstep::plan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

// Three workers on n1, one on n2.
class OrdersOfTwoNodes : public ::testing::Test {
 protected:
  OrdersOfTwoNodes() {
    plan.run_id = "job1";
    plan.run_directory.value = "/runs/job1";
    plan.command = {"python3", "train.py"};
    plan.program_word = 1;
    plan.max_restarts.value = 4;
    plan.grace_seconds.value = 7;
    plan.mode.value = LaunchMode::Srun;
    plan.nodes.resize(2);
    plan.nodes[1].gpus = {5};
    plan.variables = {{"ALL", from_flag<std::string>("all", "-x")},
                      {"SOME", from_flag<std::string>("all", "-x")}};
    plan.nodes[1].variables = {{"SOME", from_flag<std::string>("n2's", "-x")}};
    layout.attempt = 2;
    layout.master_addr = "10.0.0.1";
    layout.master_port = 20003;
    layout.slots = {{.node = 0,
                     .name = "n1",
                     .workers = 3,
                     .cores = 12,
                     .address = "10.0.0.1",
                     .interface = "ib0",
                     .ports = {20000, 20001, 20002, 20003, 20004}},
                    {.node = 1,
                     .name = "n2",
                     .workers = 1,
                     .cores = 2,
                     .address = "10.0.0.2",
                     .interface = "ib1",
                     .ports = {30000}}};
  }

  // Of all workers, in rank order.
  std::vector<os::Environment> environments(const os::Environment& agents_own = {}) const {
    const NodeSpecMaker maker(plan, layout);
    std::vector<os::Environment> all;
    for (const int slot : {0, 1}) {
      const NodeSpec spec = maker.spec_of(slot);
      for (const contract::WorkerSpec& worker_spec : spec.worker_specs()) {
        all.push_back(worker_environment(spec, worker_spec, agents_own));
      }
    }
    return all;
  }

  std::vector<std::string> values(const std::string& name) const {
    std::vector<std::string> all;
    for (const os::Environment& environment : environments()) {
      all.push_back(os::find_variable(environment, name).value_or("-"));
    }
    return all;
  }

  LaunchPlan plan;
  AttemptLayout layout;
};

TEST_F(OrdersOfTwoNodes, TellEveryWorkerItsPlaceInEveryDialect) {
  EXPECT_THAT(values("RANK"), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(values("WORLD_SIZE"), ElementsAre("4", "4", "4", "4"));
  EXPECT_THAT(values("LOCAL_RANK"), ElementsAre("0", "1", "2", "0"));
  EXPECT_THAT(values("LOCAL_WORLD_SIZE"), ElementsAre("3", "3", "3", "1"));
  EXPECT_THAT(values("GROUP_RANK"), ElementsAre("0", "0", "0", "1"));
  EXPECT_THAT(values("MASTER_ADDR"), ElementsAre("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1"));
  EXPECT_THAT(values("MASTER_PORT"), ElementsAre("20003", "20003", "20003", "20003"));
  EXPECT_THAT(values("TORCHELASTIC_RESTART_COUNT"), ElementsAre("2", "2", "2", "2"));
  EXPECT_THAT(values("TORCHELASTIC_MAX_RESTARTS"), ElementsAre("4", "4", "4", "4"));
  EXPECT_THAT(values("HOROVOD_RANK"), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(values("HOROVOD_HOSTNAME"), ElementsAre("n1", "n1", "n1", "n2"));
  EXPECT_THAT(values("HOROVOD_GLOO_RENDEZVOUS_PORT"),
              ElementsAre("20004", "20004", "20004", "20004"));
  EXPECT_THAT(values("OMPI_COMM_WORLD_RANK"), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(values("OMPI_COMM_WORLD_LOCAL_SIZE"), ElementsAre("3", "3", "3", "1"));
}

// Two nodes have a local rank 0, one has 1 and 2.
TEST_F(OrdersOfTwoNodes, CountCrossRanksAmongTheNodesThatHaveOne) {
  EXPECT_THAT(values("CROSS_RANK"), ElementsAre("0", "0", "0", "1"));
  EXPECT_THAT(values("CROSS_SIZE"), ElementsAre("2", "1", "1", "2"));
}

TEST_F(OrdersOfTwoNodes, ShareTheCoresOfTheirNode) {
  EXPECT_THAT(values("OMP_NUM_THREADS"), ElementsAre("4", "4", "4", "2"));
}

TEST_F(OrdersOfTwoNodes, NameTheInterfaceOfTheirOwnNode) {
  EXPECT_THAT(values("LOCKSTEP_INTERFACE"), ElementsAre("ib0", "ib0", "ib0", "ib1"));
}

TEST_F(OrdersOfTwoNodes, GiveTheVariablesOfAllAndThoseOfTheNode) {
  EXPECT_THAT(values("ALL"), ElementsAre("all", "all", "all", "all"));
  EXPECT_THAT(values("SOME"), ElementsAre("all", "all", "all", "n2's"));
}

TEST_F(OrdersOfTwoNodes, LetOneNodeServeHorovod) {
  const NodeSpecMaker maker(plan, layout);

  EXPECT_EQ(maker.spec_of(0).first.horovod_port, 20004);
  EXPECT_TRUE(maker.spec_of(0).serves_horovod());
  EXPECT_FALSE(maker.spec_of(1).serves_horovod());
}

TEST_F(OrdersOfTwoNodes, StartNoHorovodServerWhereNoAgentStays) {
  plan.mode.value = LaunchMode::Task;

  EXPECT_FALSE(NodeSpecMaker(plan, layout).spec_of(0).serves_horovod());
  EXPECT_THAT(values("HOROVOD_GLOO_RENDEZVOUS_PORT"), ElementsAre("-", "-", "-", "-"));
}

TEST_F(OrdersOfTwoNodes, TellTensorflowEveryWorkersAddress) {
  layout.slots[1].address = "fd00::2";

  const NodeSpec spec = NodeSpecMaker(plan, layout).spec_of(1);

  EXPECT_THAT(spec.tensorflow_cluster,
              ElementsAre("10.0.0.1:20000", "10.0.0.1:20001", "10.0.0.1:20002", "[fd00::2]:30000"));
}

TEST_F(OrdersOfTwoNodes, CarryWhatTheNodeMustKnow) {
  const NodeSpec spec = NodeSpecMaker(plan, layout).spec_of(1);

  EXPECT_THAT(spec.command, ElementsAre("python3", "train.py"));
  EXPECT_EQ(spec.first.rank, 3);
  EXPECT_EQ(spec.workers, 1);
  EXPECT_THAT(spec.gpus, ElementsAre(5));
  EXPECT_EQ(spec.first.attempt, 2);
  EXPECT_EQ(world_size(layout), 4);
}

TEST_F(OrdersOfTwoNodes, InheritNothingOfAnOuterPlaceAndNoKeys) {
  const auto inner = environments({{"PATH", "/bin"},
                                   {"RANK", "77"},
                                   {"ROLE_NAME", "outer"},
                                   {"TORCHELASTIC_ERROR_FILE", "/outer"},
                                   {"PMIX_RANK", "77"},
                                   {"PMI_FD", "7"},
                                   {"OMPI_COMM_WORLD_NODE_RANK", "77"},
                                   {"SLURM_JOB_ID", "4711"},
                                   {"LOCKSTEP_MEETING", "secret"},
                                   {"LOCKSTEP_SECRET", "secret"},
                                   {"LOCKSTEP_FORK_OFFER", "3,4"},
                                   {"OMP_NUM_THREADS", "9"}});

  for (const os::Environment& environment : inner) {
    EXPECT_THAT(environment, Not(Contains(Pair(testing::_, "77"))));
    EXPECT_THAT(environment, Not(Contains(Pair(testing::_, "secret"))));
    EXPECT_THAT(environment, Not(Contains(Key("PMI_FD"))));
    EXPECT_THAT(environment, Not(Contains(Key("LOCKSTEP_FORK_OFFER"))));
    EXPECT_THAT(environment, Contains(Pair("PATH", "/bin")));
    EXPECT_THAT(environment, Contains(Pair("SLURM_JOB_ID", "4711")));
    EXPECT_THAT(environment, Contains(Pair("OMP_NUM_THREADS", "9"))) << "the user's stays";
  }
}

// A task becomes the worker itself, so MPI_Init must find its server.
TEST_F(OrdersOfTwoNodes, LeaveATaskWhatMpiNeeds) {
  plan.mode.value = LaunchMode::Task;
  const NodeSpec spec = NodeSpecMaker(plan, layout).spec_of(0);

  const os::Environment environment =
      task_environment(spec, spec.worker_specs().at(1), {{"PMIX_NAMESPACE", "x"}, {"RANK", "77"}});

  EXPECT_THAT(environment, Contains(Pair("PMIX_NAMESPACE", "x")));
  EXPECT_THAT(environment, Contains(Pair("RANK", "1")));
}

TEST_F(OrdersOfTwoNodes, AreTheSameForTheNodeSlotsOfALargeRun) {
  layout.slots.assign(3000, layout.slots[1]);
  const NodeSpecMaker maker(plan, layout);

  const NodeSpec last = maker.spec_of(2999);

  EXPECT_EQ(last.first.rank, 2999);
  EXPECT_THAT(last.cross_ranks, ElementsAre(2999));
  EXPECT_THAT(last.tensorflow_cluster, testing::IsEmpty()) << "too many for one variable";
}

}  // namespace
}  // namespace lockstep::plan
