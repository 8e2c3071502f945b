// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/check_demand.h"

#include <gmock/gmock.h>

#include "launcher/slurm/time_limit.h"
#include "lockstep/error.h"
#include "support/golden.h"

namespace lockstep::slurm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ClusterNode node(const std::string& name,
                 const std::vector<GpuCount>& gpus,
                 const std::string& in) {
  return {.name = name,
          .cpus = 16,
          .memory_mib = 64000,
          .gpus = gpus,
          .features = {"nvlink", "rack1"},
          .partitions = {in},
          .state = "IDLE"};
}

Partition partition(const std::string& name, int nodes) {
  Partition made;
  made.name = name;
  made.state = "UP";
  made.nodes = nodes;
  return made;
}

// main: two nodes with two A100 each and one without GPUs; big: one with eight H100; old: down.
ClusterFacts fake_cluster() {
  ClusterFacts facts;
  facts.partitions = {partition("main", 3), partition("big", 1), partition("old", 1)};
  facts.partitions[0].is_default = true;
  facts.partitions[0].max_minutes = 120;
  facts.partitions[1].accounts = {"physics"};
  facts.partitions[1].qos = {"normal", "long"};
  facts.partitions[2].state = "DOWN";
  facts.nodes = {node("n1", {{"a100", 2}}, "main"),
                 node("n2", {{"a100", 2}}, "main"),
                 node("n3", {}, "main"),
                 node("b1", {{"h100", 8}}, "big"),
                 node("o1", {}, "old")};
  facts.nodes[2].cpus = 64;
  return facts;
}

template <typename Value>
Requested<Value> asked(Value value, int line) {
  return {.value = std::move(value), .source = "slurm_config.yaml:" + std::to_string(line) + ":9"};
}

std::string objection(const Demand& demand, const ClusterFacts& facts = fake_cluster()) {
  try {
    check(demand, facts);
    return "none\n";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return std::string(error.what()) + "\n";
  }
}

TEST(CheckDemand, LetsThroughWhatTheClusterHas) {
  const ClusterFacts facts = fake_cluster();
  EXPECT_NO_THROW(check({}, facts));
  EXPECT_NO_THROW(check({.partition = asked<std::string>("main", 1),
                         .constraint = asked<std::string>("nvlink&[rack1|nvlink*2]", 2),
                         .gpu_type = asked<std::string>("a100", 3),
                         .nodes = asked(2, 4),
                         .gpus_per_node = asked(2, 5),
                         .cpus_per_node = asked(16, 6),
                         .memory_mib = asked<int64_t>(64000, 7),
                         .minutes = asked<int64_t>(120, 8)},
                        facts));
  // One suitable partition of several is sufficient.
  EXPECT_NO_THROW(check({.partition = asked<std::string>("main,big", 1),
                         .account = asked<std::string>("physics", 2),
                         .gpus_per_node = asked(8, 3)},
                        facts));
}

TEST(CheckDemand, RefusesWhatTheClusterNeverGives) {
  std::string text = objection({.partition = asked<std::string>("mian", 1)});
  text += objection({.partition = asked<std::string>("xyz", 1)});
  text += objection({.partition = asked<std::string>("old", 1)});
  text += objection(
      {.partition = asked<std::string>("big", 1), .account = asked<std::string>("bio", 2)});
  text +=
      objection({.partition = asked<std::string>("big", 1), .qos = asked<std::string>("debug", 3)});
  text += objection({.nodes = asked(9, 4)});
  text += objection({.gpus_per_node = asked(4, 5)});
  text += objection({.gpus_per_node = asked(16, 5)});
  text += objection({.gpu_type = asked<std::string>("a10", 6), .gpus_per_node = asked(1, 5)});
  text += objection({.gpu_type = asked<std::string>("h100", 6), .gpus_per_node = asked(1, 5)});
  text += objection({.cpus_per_node = asked(128, 7)});
  text += objection({.memory_mib = asked<int64_t>(128000, 8)});
  text += objection({.minutes = asked<int64_t>(121, 9)});
  text += objection({.minutes = asked(kUnlimited, 9)});
  text += objection({.constraint = asked<std::string>("nvlnk|rack1", 10)});
  text += objection({.nodes = asked(3, 4), .gpus_per_node = asked(2, 5)});
  text += objection({.gpus_per_node = asked(2, 5), .cpus_per_node = asked(64, 7)});
  testing::expect_golden(text, "slurm_objections.txt");
}

TEST(CheckDemand, RefusesMoreOrFewerNodesThanAJobMayHave) {
  ClusterFacts facts = fake_cluster();
  facts.partitions[0].max_nodes = 2;
  facts.partitions[0].min_nodes = 2;

  EXPECT_THAT(objection({.nodes = asked(3, 4)}, facts), HasSubstr("maximum per job: 2 nodes"));
  EXPECT_THAT(objection({.nodes = asked(1, 4)}, facts), HasSubstr("minimum per job: 2 nodes"));
}

TEST(CheckDemand, NeedsAnAccountWhereTheClusterDoes) {
  ClusterFacts facts = fake_cluster();
  facts.settings.enforces_accounts = true;
  facts.accounts = Accounts{.names = {"bio", "physics"}, .preferred = ""};

  EXPECT_THAT(objection({}, facts),
              AllOf(HasSubstr("no account given: this cluster requires one"),
                    HasSubstr("your accounts: bio, physics"),
                    HasSubstr("account: bio")));
  EXPECT_THAT(objection({.account = asked<std::string>("physic", 2)}, facts),
              AllOf(HasSubstr("account 'physic' is not one of your accounts"),
                    HasSubstr("slurm_config.yaml:2:9"),
                    HasSubstr("try:           physics")));
  EXPECT_EQ(objection({.account = asked<std::string>("bio", 2)}, facts), "none\n");

  facts.accounts->preferred = "bio";
  EXPECT_EQ(objection({}, facts), "none\n");
  facts.accounts.reset();  // unknown: left to sbatch --test-only
  EXPECT_EQ(objection({}, facts), "none\n");
}

TEST(CheckDemand, LeavesTheChoiceToASitesOwnRules) {
  ClusterFacts facts = fake_cluster();
  facts.settings.has_submit_plugin = true;
  facts.settings.enforces_accounts = true;
  facts.accounts = Accounts{.names = {"bio"}, .preferred = ""};

  EXPECT_EQ(objection({.nodes = asked(9, 4)}, facts), "none\n");
  EXPECT_THAT(objection({.partition = asked<std::string>("main", 1), .nodes = asked(9, 4)}, facts),
              HasSubstr("too many nodes for partition 'main': 9"));
}

TEST(CheckDemand, CountsSbatchsVariablesMoreThanDirectives) {
  const Demand demand = with_sbatch_variables({.partition = asked<std::string>("main", 1)},
                                              {{"SBATCH_PARTITION", "big"},
                                               {"SBATCH_ACCOUNT", "physics"},
                                               {"SBATCH_QOS", "long"},
                                               {"SBATCH_CONSTRAINT", "rack1"},
                                               {"SBATCH_TIMELIMIT", "1:30:00"}});

  EXPECT_EQ(demand.partition->value, "big");
  EXPECT_EQ(demand.partition->source, "SBATCH_PARTITION");
  EXPECT_EQ(demand.account->value, "physics");
  EXPECT_EQ(demand.qos->value, "long");
  EXPECT_EQ(demand.constraint->value, "rack1");
  EXPECT_EQ(demand.minutes->value, 90);
  EXPECT_THAT(
      [] {
        with_sbatch_variables({}, {{"SBATCH_TIMELIMIT", "soon"}});
      },
      ThrowsMessage<Error>(HasSubstr("SBATCH_TIMELIMIT")));
}

}  // namespace
}  // namespace lockstep::slurm
