// SPDX-License-Identifier: Apache-2.0
// Runs on broken networks, each on a separate lab.
#include <gmock/gmock.h>

#include "launcher/slurm/workers.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two nodes, four workers, as a batch job.
JobEnd run_two_nodes(const Lab& lab, const std::string& options = "") {
  return lab.run_job({"-N2"},
                     "#!/bin/bash\n" + copy_launcher(lab) + " run --nproc-per-node 2 " + options +
                         " " + write_meet(lab) + "\n");
}

class Network : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!shared_lab().reason_against().empty()) {
      GTEST_SKIP() << shared_lab().reason_against();
    }
  }
};

TEST_F(Network, IsTheOneThatWorksHoweverTheOtherFails) {
  for (const char* block : {"reject", "isolate"}) {
    SCOPED_TRACE(block);
    Lab lab({"--nodes", "2", "--block", block});
    lab.work_in("work");

    const JobEnd end = run_two_nodes(lab);

    EXPECT_EQ(end.state, "COMPLETED") << end.output;
    expect_workers(lab, {{"n1", 2}, {"n2", 2}});
  }
}

TEST_F(Network, IsAnyOneWhereAllWork) {
  Lab lab({"--nodes", "2", "--block", "open"});
  lab.work_in("work");

  const JobEnd end = run_two_nodes(lab);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_EQ(fact_of(lab, 3).value("WORLD_SIZE", ""), "4");
}

TEST_F(Network, IsTheOneAskedFor) {
  Lab lab({"--nodes", "2", "--block", "open"});
  for (const char* name : {"mgmt0", "fab0"}) {
    SCOPED_TRACE(name);
    lab.work_in(name);

    const JobEnd end = run_two_nodes(lab, std::string("--network-interfaces ") + name);

    EXPECT_EQ(end.state, "COMPLETED") << end.output;
    EXPECT_THAT(fact_of(lab, 3).value("GLOO_SOCKET_IFNAME", ""), HasSubstr(name));
  }
}

TEST_F(Network, NeedNotBeTheOneThatSlurmUses) {
  Lab lab({"--nodes", "2", "--slurm-net", "mgmt"});
  lab.work_in("work");

  const JobEnd end = run_two_nodes(lab);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  expect_workers(lab, {{"n1", 2}, {"n2", 2}});
}

TEST_F(Network, MayHaveIpv6Only) {
  Lab lab({"--nodes", "2", "--slurm-net", "mgmt"});
  lab.work_in("work");
  for (const std::string& node : lab.nodes()) {
    lab.on_as_root(node, {"ip", "-4", "addr", "flush", "dev", "fab0"});
  }

  const JobEnd end = run_two_nodes(lab);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  expect_workers(lab, {{"n1", 2}, {"n2", 2}});
  EXPECT_THAT(fact_of(lab, 3).value("MASTER_ADDR", ""), StartsWith("fd00:12:"));
}

TEST_F(Network, NeedsNoNameThatLeadsAnywhere) {
  Lab lab({"--nodes", "2"});
  lab.work_in("work");
  for (const std::string& node : lab.nodes()) {
    lab.on_as_root(node, {"bash", "-c", "echo 127.0.1.1 $HOSTNAME >/etc/hosts"});
  }

  const JobEnd end = run_two_nodes(lab);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  expect_workers(lab, {{"n1", 2}, {"n2", 2}});
}

// The login node reaches both nodes, so the agents join, but the nodes do not reach each other.
TEST_F(Network, IsNamedWhereNoneConnectsAllNodes) {
  Lab lab({"--nodes", "2", "--slurm-net", "mgmt"});
  lab.work_in("work");
  lab.tool("cut", {"n2", "fab"});

  const Result result =
      lab.on("ctl", {"salloc", "-N2", copy_launcher(lab), "run", write_meet(lab)});

  EXPECT_EQ(result.status.code, 69);
  // A network with a disconnected cable is not a candidate.
  EXPECT_THAT(result.errors, AllOf(HasSubstr("n1 -> n2"), HasSubstr("10.11.0.0/24")));
  EXPECT_TRUE(lab.is_quiet());
}

TEST_F(Network, LacksTheNodeThatDidNotReachTheLeader) {
  Lab lab({"--nodes", "2", "--slurm-net", "mgmt"});
  lab.work_in("work");
  lab.tool("cut", {"n2", "fab"});

  const JobEnd end = run_two_nodes(lab, "--start-timeout 5");

  EXPECT_EQ(end.code, 69);
  EXPECT_THAT(end.output, HasSubstr("n2 did not join within 5 s"));
  EXPECT_TRUE(lab.is_quiet());
}

TEST_F(Network, IsLeftToTheUserWhoHasChosen) {
  Lab lab({"--nodes", "2", "--block", "open"});
  lab.work_in("work");

  const JobEnd end =
      run_two_nodes(lab, "--env GLOO_SOCKET_IFNAME=mgmt0 --env NCCL_SOCKET_IFNAME=^lo");

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_EQ(fact_of(lab, 3).value("GLOO_SOCKET_IFNAME", ""), "mgmt0");
  EXPECT_EQ(fact_of(lab, 3).value("NCCL_SOCKET_IFNAME", ""), "^lo");
}

}  // namespace
}  // namespace lockstep::testing
