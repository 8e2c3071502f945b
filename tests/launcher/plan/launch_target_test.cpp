// SPDX-License-Identifier: Apache-2.0
// Launch modes, and how they are chosen.
#include <gmock/gmock.h>

#include "launcher/plan/plan.h"
#include "launcher/plan/scene.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

std::vector<std::string> names_of(const LaunchPlan& plan) {
  std::vector<std::string> names;
  for (const PlannedNode& node : plan.nodes) {
    names.push_back(node.name);
  }
  return names;
}

// The sentence, a fact of each source, and a hint.
template <typename Action>
void expect_refused(Action action,
                    const std::string& sentence,
                    const std::string& one,
                    const std::string& other) {
  EXPECT_THAT(action,
              ThrowsMessage<Error>(
                  AllOf(HasSubstr(sentence), HasSubstr(one), HasSubstr(other), HasSubstr("try:"))));
}

TEST(LaunchMode, IsThisMachineByDefault) {
  const LaunchPlan plan = make_plan(ask({"a"}), quiet_machine());

  EXPECT_EQ(plan.mode.value, LaunchMode::Local);
  EXPECT_THAT(names_of(plan), ElementsAre("node-a"));
}

TEST(LaunchMode, IsOneSrunInsideAJob) {
  const LaunchPlan plan = make_plan(ask({"a"}), in_slurm_job({"n1", "n2", "n3"}));

  EXPECT_EQ(plan.mode, from_probe(LaunchMode::Srun, "Slurm job 4711"));
  EXPECT_THAT(names_of(plan), ElementsAre("n1", "n2", "n3"));
  EXPECT_EQ(plan.min_nodes.value, 3);
  EXPECT_EQ(plan.master_addr.value, "");
}

TEST(LaunchMode, IsThisMachineInAJobThatHasNoOther) {
  HostEnvironment here = in_slurm_job({"n1"});
  EXPECT_EQ(make_plan(ask({"a"}), here).mode.value, LaunchMode::Local);
  here.node = "n1.cluster.example";
  EXPECT_EQ(make_plan(ask({"a"}), here).mode.value, LaunchMode::Local);

  here.node = "login";
  EXPECT_EQ(make_plan(ask({"a"}), here).mode.value, LaunchMode::Srun);
}

TEST(LaunchMode, TakesTheFirstNodesOfAJobWhenFewerAreAsked) {
  Request request = ask({"a"});
  request.nnodes = by_flag("2");
  EXPECT_THAT(names_of(make_plan(request, in_slurm_job({"n1", "n2", "n3"}))),
              ElementsAre("n1", "n2"));

  request.nnodes = by_flag("2:8");
  const LaunchPlan plan = make_plan(request, in_slurm_job({"n1", "n2", "n3"}));
  EXPECT_THAT(plan.nodes, SizeIs(3));
  EXPECT_EQ(plan.min_nodes, from_flag(2, "--nnodes"));

  request.nnodes = by_flag("4");
  expect_refused(
      [&] {
        make_plan(request, in_slurm_job({"n1", "n2", "n3"}));
      },
      "cannot run on 4 nodes: only 3 are available",
      "--nnodes 4  (command line)",
      "3 nodes: n[1-3]  (Slurm job 4711)");
}

TEST(LaunchMode, IsOneProcessPerNodeInAStepWithOneTaskEach) {
  const LaunchPlan plan = make_plan(ask({"a"}), in_slurm_step({"n1", "n2"}, 1, 1));

  EXPECT_EQ(plan.mode, from_probe(LaunchMode::Peers, "Slurm step 4711.0"));
  EXPECT_THAT(names_of(plan), ElementsAre("n1", "n2"));
  EXPECT_EQ(plan.rendezvous.name, "slurm-4711.0");
  EXPECT_EQ(plan.rendezvous.node, 1);
  EXPECT_EQ(plan.rendezvous.host, "");
}

TEST(LaunchMode, IsTheWorkerItselfInAStepWithMoreTasks) {
  const LaunchPlan plan = make_plan(ask({"a"}), in_slurm_step({"n1", "n2"}, 4, 6));

  EXPECT_EQ(plan.mode.value, LaunchMode::Task);
  EXPECT_EQ(plan.rendezvous.rank, 6);
  EXPECT_EQ(plan.rendezvous.world_size, 8);
  EXPECT_EQ(plan.rendezvous.local_rank, 2);
  EXPECT_EQ(plan.rendezvous.local_world_size, 4);
  EXPECT_EQ(plan.rendezvous.node, 1);
  EXPECT_EQ(plan.nodes.at(0).workers.value, 4);
  EXPECT_EQ(plan.run_id, "a-slurm-4711.0");
}

TEST(LaunchMode, IsThisMachineForTheOnlyTaskOfAStep) {
  HostEnvironment here = in_slurm_step({"n2"}, 1, 0);
  here.job->nodes = {"n1", "n2"};
  EXPECT_EQ(make_plan(ask({"a"}), here).mode.value, LaunchMode::Local);

  Request request = ask({"a"});
  request.nnodes = by_flag("2");
  EXPECT_EQ(make_plan(request, here).mode.value, LaunchMode::Srun);
}

TEST(LaunchMode, FollowsAnOuterLauncherBeforeSlurm) {
  HostEnvironment peers = under_mpirun(2, 1, 1);
  EXPECT_EQ(make_plan(ask({"a"}), peers).mode, from_probe(LaunchMode::Peers, "Open MPI"));
  EXPECT_THAT(names_of(make_plan(ask({"a"}), peers)), ElementsAre("", "node-a"));
  EXPECT_EQ(make_plan(ask({"a"}), peers).rendezvous.name, "Open-MPI-prte-1-1");
  EXPECT_EQ(make_plan(ask({"a"}), peers).rendezvous.node, 1);

  HostEnvironment tasks = under_mpirun(5, 3, 4);
  tasks.job = in_slurm_job({"n1", "n2"}).job;
  const LaunchPlan plan = make_plan(ask({"a"}), tasks);
  EXPECT_EQ(plan.mode.value, LaunchMode::Task);
  EXPECT_EQ(plan.nodes.at(0).workers.value, 3);
  EXPECT_EQ(plan.nodes.at(1).workers.value, 2);
  EXPECT_EQ(plan.rendezvous.local_rank, 1);

  EXPECT_EQ(make_plan(ask({"a"}), under_mpirun(1, 1, 0)).mode.value, LaunchMode::Local);
}

TEST(LaunchMode, IsThisMachineInsideAWorker) {
  HostEnvironment here = in_slurm_step({"n1", "n2"}, 4, 5);
  here.is_nested = true;

  const LaunchPlan plan = make_plan(ask({"a"}), here);

  EXPECT_EQ(plan.mode, from_probe(LaunchMode::Local, "inside a worker of another run"));
  EXPECT_EQ(plan.bind.value, Bind::None);
}

TEST(LaunchMode, IsThisMachineWhenStandalone) {
  Request request = ask({"a"});
  request.is_standalone = true;
  EXPECT_EQ(make_plan(request, in_slurm_job({"n1", "n2"})).mode,
            from_flag(LaunchMode::Local, "--standalone"));
}

TEST(LaunchMode, IsSshForNamedHosts) {
  Request request = ask({"a"});
  request.hosts = by_flag("n1:4,n2:2");
  LaunchPlan plan = make_plan(request, in_slurm_job({"n1", "n2"}));
  EXPECT_EQ(plan.mode, from_flag(LaunchMode::Ssh, "-H"));
  EXPECT_THAT(names_of(plan), ElementsAre("n1", "n2"));

  request.hosts.reset();
  request.hostfile = by_flag("hosts.txt");
  request.hostfile_text = "n1 slots=4\nn2 slots=4\n";
  request.exclude = by_flag("n1:0@n2");
  plan = make_plan(request, quiet_machine());
  EXPECT_EQ(plan.mode, from_flag(LaunchMode::Ssh, "--hostfile"));
  EXPECT_THAT(names_of(plan), ElementsAre("n1"));
  EXPECT_THAT(plan.nodes.at(0).gpus, ElementsAre(1, 2, 3));
  EXPECT_EQ(plan.nodes.at(0).workers.value, 3);
}

TEST(LaunchMode, IsThisMachineWhenItIsTheOnlyHostNamed) {
  for (const char* hosts : {"localhost:4", "127.0.0.1:4", "node-a:4", "node-a.example.org:4"}) {
    SCOPED_TRACE(hosts);
    Request request = ask({"a"});
    request.hosts = by_flag(hosts);
    const LaunchPlan plan = make_plan(request, quiet_machine());
    EXPECT_EQ(plan.mode.value, LaunchMode::Local);
    EXPECT_THAT(names_of(plan), ElementsAre("node-a"));
    EXPECT_EQ(plan.nodes.at(0).workers.value, 4);
  }
  Request spare = ask({"a"});
  spare.hosts = by_flag("localhost:2,n2:2");
  spare.np = by_flag("2");
  EXPECT_EQ(make_plan(spare, quiet_machine()).mode.value, LaunchMode::Local);
}

TEST(LaunchMode, ChoosesAmongTheJobsNodesByInclusion) {
  Request request = ask({"a"});
  request.include = by_flag("n2:0,1");
  HostEnvironment here = in_slurm_job({"n1", "n2"});
  here.job->gpus_per_node = 4;

  const LaunchPlan plan = make_plan(request, here);

  EXPECT_EQ(plan.mode.value, LaunchMode::Srun);
  EXPECT_THAT(names_of(plan), ElementsAre("n2"));
  EXPECT_THAT(plan.nodes.at(0).gpus, ElementsAre(0, 1));
}

TEST(LaunchMode, ChoosesAmongThisMachinesGpusByInclusion) {
  Request request = ask({"a"});
  request.dialect = Dialect::Deepspeed;
  request.include = by_flag("localhost:1,3");
  HostEnvironment here = quiet_machine();
  here.gpus = 4;

  const LaunchPlan plan = make_plan(request, here);

  EXPECT_EQ(plan.mode.value, LaunchMode::Local);
  EXPECT_THAT(plan.nodes.at(0).gpus, ElementsAre(1, 3));
  EXPECT_EQ(plan.nodes.at(0).workers.value, 2);
}

TEST(LaunchMode, IsByHandWithAnEndpointAndSeveralNodes) {
  Request request = ask({"a"});
  request.nnodes = by_flag("2");
  request.rdzv_endpoint = by_flag("n1");
  request.rdzv_id = by_flag("job1");
  request.rdzv_backend = by_flag("c10d");
  LaunchPlan plan = make_plan(request, quiet_machine());
  EXPECT_EQ(plan.mode, from_flag(LaunchMode::Peers, "--rdzv-endpoint"));
  EXPECT_EQ(plan.rendezvous.name, "job1");
  EXPECT_EQ(plan.rendezvous.host, "n1");
  EXPECT_EQ(plan.rendezvous.port, 29400);
  EXPECT_EQ(plan.rendezvous.node, std::nullopt);
  EXPECT_THAT(names_of(plan), ElementsAre("", ""));

  request.rdzv_endpoint = by_flag("[fd00::1]:1234");
  plan = make_plan(request, quiet_machine());
  EXPECT_EQ(plan.rendezvous.host, "fd00::1");
  EXPECT_EQ(plan.rendezvous.port, 1234);

  request.nnodes.reset();
  plan = make_plan(request, quiet_machine());
  EXPECT_EQ(plan.mode.value, LaunchMode::Local);
  EXPECT_THAT(plan.remarks,
              ElementsAre("--rdzv-endpoint [fd00::1]:1234 is not needed: there is one node"));
}

TEST(LaunchMode, IsByHandWithANumberForThisNode) {
  Request request = ask({"a"});
  request.nnodes = by_flag("2");
  request.node_rank = by_flag("1");
  request.master_addr = by_flag("n1");
  LaunchPlan plan = make_plan(request, quiet_machine());
  EXPECT_EQ(plan.mode, from_flag(LaunchMode::Peers, "--node-rank"));
  EXPECT_EQ(plan.rendezvous.node, 1);
  EXPECT_EQ(plan.rendezvous.name, "n1:29500");
  EXPECT_THAT(names_of(plan), ElementsAre("", "node-a"));
  EXPECT_EQ(plan.master_addr.value, "") << "where nodes meet is not where workers do";

  request.master_port = by_flag("4444");
  plan = make_plan(request, quiet_machine());
  EXPECT_EQ(plan.rendezvous.port, 4444);
  EXPECT_EQ(plan.master_port.value, 0);

  request.node_rank = by_flag("0");
  request.nnodes = by_flag("1");
  plan = make_plan(request, quiet_machine());
  EXPECT_EQ(plan.mode.value, LaunchMode::Local);
  EXPECT_EQ(plan.master_port, from_flag(4444, "--master-port"));
}

TEST(LaunchMode, KnowsItsNodeByHandFromTheStep) {
  Request request = ask({"a"});
  request.nnodes = by_flag("2");
  request.rdzv_endpoint = by_flag("n1:29400");
  const LaunchPlan plan = make_plan(request, in_slurm_step({"n1", "n2"}, 1, 1));
  EXPECT_EQ(plan.rendezvous.node, 1);
  EXPECT_THAT(names_of(plan), ElementsAre("n1", "n2"));

  request.rdzv_endpoint.reset();
  request.node_rank = by_flag("1");
  EXPECT_EQ(make_plan(request, in_slurm_step({"n1", "n2"}, 1, 1)).rendezvous.name, "slurm-4711.0");
}

TEST(LaunchMode, RefusesWhatTheStepContradicts) {
  Request request = ask({"a"});
  request.nnodes = by_flag("2");
  request.node_rank = by_flag("0");
  request.master_addr = by_flag("n1");
  expect_refused(
      [&] {
        make_plan(request, in_slurm_step({"n1", "n2"}, 1, 1));
      },
      "--node-rank 0 is wrong: this is node 1",
      "--node-rank 0  (command line)",
      "node 1 of 2  (SLURM_NODEID)");
  expect_refused(
      [&] {
        make_plan(request, in_slurm_step({"n1", "n2"}, 4, 1));
      },
      "cannot form a rendezvous of 2 nodes: Slurm started 8 tasks",
      "--nnodes 2  (command line)",
      "8 tasks  (Slurm step 4711.0)");

  Request fewer = ask({"a"});
  fewer.nnodes = by_flag("1");
  expect_refused(
      [&] {
        make_plan(fewer, in_slurm_step({"n1", "n2"}, 1, 1));
      },
      "cannot run on 1 node: this was started on 2 nodes",
      "--nnodes 1  (command line)",
      "2 nodes: n[1-2]  (Slurm step 4711.0)");
}

TEST(LaunchMode, RefusesSeveralNodesWithoutNames) {
  Request request = ask({"a"});
  request.nnodes = by_flag("2");
  EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cannot run on 2 nodes: this is one machine"),
                                         HasSubstr("-H host1:4,host2:4"),
                                         HasSubstr("salloc -N 2"))));
  request.node_rank = by_flag("1");
  EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
              ThrowsMessage<Error>(HasSubstr("the address of node 0 is not known")));
}

TEST(LaunchMode, RefusesOptionsThatExcludeEachOther) {
  struct Case {
    Option Request::*one;
    const char* one_text;
    Option Request::*other;
    const char* other_text;
    const char* sentence;
  };
  const std::vector<Case> cases = {
      {&Request::hosts, "n1", &Request::hostfile, "f", "cannot use -H with --hostfile"},
      {&Request::include, "n1", &Request::exclude, "n2", "cannot use --include with --exclude"},
      {&Request::include, "n1", &Request::nnodes, "1", "cannot use --include with --nnodes"},
      {&Request::exclude, "n1", &Request::nproc_per_node, "1", "cannot use --exclude with --nproc"},
      {&Request::hosts, "n1,n2", &Request::node_rank, "0", "cannot use -H with --node-rank"},
      {&Request::hosts, "n1", &Request::rdzv_endpoint, "n1", "cannot use -H with --rdzv-endpoint"},
      {&Request::node_rank, "2", &Request::nnodes, "2", "--node-rank 2 is out of range for 2"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.sentence);
    Request request = ask({"a"});
    request.*one.one = by_flag(one.one_text);
    request.*one.other = by_flag(one.other_text);
    EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
                ThrowsMessage<Error>(AllOf(HasSubstr(one.sentence), HasSubstr("try:"))));
  }
}

TEST(LaunchMode, RefusesWhatIsNotThisMachineAlone) {
  struct Case {
    Option Request::*option;
    const char* text;
    const char* sentence;
  };
  const std::vector<Case> cases = {
      {&Request::rdzv_endpoint, "n1", "cannot use --standalone with --rdzv-endpoint"},
      {&Request::hosts, "n1", "cannot use --standalone with -H"},
      {&Request::hostfile, "f", "cannot use --standalone with --hostfile"},
      {&Request::nnodes, "2", "cannot run on 2 nodes with --standalone"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.sentence);
    Request request = ask({"a"});
    request.is_standalone = true;
    request.*one.option = by_flag(one.text);
    EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
                ThrowsMessage<Error>(HasSubstr(one.sentence)));
  }
}

TEST(LaunchMode, RefusesProgramsThatAreTwoThings) {
  struct Case {
    bool Request::*one;
    bool Request::*other;
    const char* sentence;
  };
  const std::vector<Case> cases = {
      {&Request::is_module, &Request::is_no_python, "cannot use -m with --no-python"},
      {&Request::is_module, &Request::is_run_path, "cannot use -m with --run-path"},
      {&Request::is_local_rank_passed, &Request::is_use_env, "conflicting options for the local"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.sentence);
    Request request = ask({"a"});
    request.*one.one = true;
    request.*one.other = true;
    EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
                ThrowsMessage<Error>(HasSubstr(one.sentence)));
  }
  Request launch = ask({"a"});
  launch.dialect = Dialect::TorchLaunch;
  launch.is_no_python = true;
  EXPECT_THAT([&] { make_plan(launch, quiet_machine()); },
              ThrowsMessage<Error>(HasSubstr("the program is not a Python script")));
}

}  // namespace
}  // namespace lockstep::plan
