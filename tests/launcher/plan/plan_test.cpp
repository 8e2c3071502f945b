// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/plan.h"

#include <gmock/gmock.h>

#include "launcher/plan/scene.h"
#include "lockstep/error.h"
#include "support/golden.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(MakePlan, HasADefaultForEverythingButTheProgram) {
  const LaunchPlan plan = make_plan(ask({"build/bin/mnist", "-s", "ddp"}), quiet_machine());

  EXPECT_THAT(plan.command, ElementsAre("build/bin/mnist", "-s", "ddp"));
  EXPECT_EQ(plan.program_word, 0);
  EXPECT_FALSE(plan.passes_local_rank);
  EXPECT_EQ(plan.run_id, "mnist-20240131-093000-beef");
  EXPECT_EQ(plan.run_directory, from_default<std::string>("/home/me/runs/" + plan.run_id));
  EXPECT_EQ(plan.mode, from_default(LaunchMode::Local));
  EXPECT_EQ(plan.nodes.at(0).workers, from_default(1));
  EXPECT_EQ(plan.min_nodes.value, 1);
  EXPECT_EQ(plan.master_addr, from_default<std::string>("127.0.0.1"));
  EXPECT_EQ(plan.master_port, from_default(0));
  EXPECT_EQ(plan.grace_seconds, from_default(30.0));
  EXPECT_EQ(plan.timeout_seconds.value, 0);
  EXPECT_EQ(plan.bind.value, Bind::None);
  EXPECT_EQ(plan.role.value, "default");
}

TEST(MakePlan, RunsPythonProgramsUnderPythonWithoutBuffering) {
  const LaunchPlan plan = make_plan(ask({"train.py", "--lr", "1"}), quiet_machine());

  EXPECT_THAT(plan.command, ElementsAre("python3", "train.py", "--lr", "1"));
  EXPECT_EQ(plan.program_word, 1);
  EXPECT_EQ(plan.variables.at("PYTHONUNBUFFERED").value, "1");
  EXPECT_THAT(make_plan(ask({"python", "train.py"}), quiet_machine()).variables,
              Contains(Key("PYTHONUNBUFFERED")));
  EXPECT_THAT(make_plan(ask({"./train"}), quiet_machine()).variables,
              Not(Contains(Key("PYTHONUNBUFFERED"))));
}

TEST(MakePlan, RunsModulesPathsAndExecutablesAsAsked) {
  Request module = ask({"pkg.train", "-x"});
  module.is_module = true;
  Request path = ask({"/abs/script", "-x"});
  path.is_run_path = true;
  Request bare = ask({"train.py"});
  bare.is_no_python = true;
  HostEnvironment other = quiet_machine();
  other.environment = {{"PYTHON_EXEC", "/opt/py/bin/python"}};

  EXPECT_THAT(make_plan(module, quiet_machine()).command,
              ElementsAre("python3", "-m", "pkg.train", "-x"));
  EXPECT_EQ(make_plan(module, quiet_machine()).program_word, 2);
  EXPECT_EQ(make_plan(module, quiet_machine()).run_id, "pkg.train-20240131-093000-beef");
  EXPECT_THAT(make_plan(path, quiet_machine()).command,
              ElementsAre("python3", "/abs/script", "-x"));
  EXPECT_THAT(make_plan(bare, quiet_machine()).command, ElementsAre("train.py"));
  EXPECT_THAT(make_plan(ask({"train.py"}), other).command,
              ElementsAre("/opt/py/bin/python", "train.py"));
}

TEST(MakePlan, PassesTheLocalRankWhereTheDialectDoes) {
  const auto plan_in = [](Dialect dialect, bool Request::*flag) {
    Request request = ask({"train.py"});
    request.dialect = dialect;
    if (flag != nullptr) {
      request.*flag = true;
    }
    return make_plan(request, quiet_machine());
  };

  EXPECT_FALSE(plan_in(Dialect::Torchrun, nullptr).passes_local_rank);
  EXPECT_TRUE(plan_in(Dialect::TorchLaunch, nullptr).passes_local_rank);
  EXPECT_FALSE(plan_in(Dialect::TorchLaunch, &Request::is_use_env).passes_local_rank);
  EXPECT_TRUE(plan_in(Dialect::Deepspeed, nullptr).passes_local_rank);
  EXPECT_FALSE(plan_in(Dialect::Deepspeed, &Request::is_no_local_rank).passes_local_rank);
  EXPECT_TRUE(plan_in(Dialect::Lockstep, &Request::is_local_rank_passed).passes_local_rank);
  EXPECT_TRUE(plan_in(Dialect::Lockstep, &Request::is_local_rank_taken).passes_local_rank);
  EXPECT_FALSE(plan_in(Dialect::Torchrun, &Request::is_local_rank_taken).passes_local_rank);
  EXPECT_EQ(plan_in(Dialect::TorchLaunch, nullptr).local_rank_option, "--local_rank");
  EXPECT_EQ(plan_in(Dialect::TorchLaunch, &Request::is_local_rank_dashed).local_rank_option,
            "--local-rank");
}

TEST(MakePlan, SharesTheCoresUnlessTheUserHas) {
  HostEnvironment here = quiet_machine();
  Request request = ask({"a"});
  const auto threads = [&](const char* workers) {
    request.nproc_per_node = by_flag(workers);
    const LaunchPlan plan = make_plan(request, here);
    const Variables& own = plan.nodes.at(0).variables;
    return own.contains("OMP_NUM_THREADS") ? own.at("OMP_NUM_THREADS").value
                                           : plan.variables.at("OMP_NUM_THREADS").value;
  };

  EXPECT_EQ(threads("2"), "4");
  EXPECT_EQ(threads("3"), "2");
  EXPECT_EQ(threads("16"), "1");
  here.environment.emplace("OMP_NUM_THREADS", "5,2");
  EXPECT_EQ(threads("2"), "5,2");
  request.env = {by_flag("OMP_NUM_THREADS=7")};
  EXPECT_EQ(threads("2"), "7");
}

TEST(MakePlan, LeavesTheCoresOfOtherNodesToTheirAgents) {
  HostEnvironment here = in_slurm_job({"n1", "n2"});
  EXPECT_THAT(make_plan(ask({"a"}), here).variables, Not(Contains(Key("OMP_NUM_THREADS"))));
  EXPECT_THAT(make_plan(ask({"a"}), here).nodes.at(0).variables, ::testing::IsEmpty());

  here.environment.emplace("OMP_NUM_THREADS", "3");
  EXPECT_EQ(make_plan(ask({"a"}), here).variables.at("OMP_NUM_THREADS").value, "3");
}

TEST(MakePlan, RefusesToRunNothing) {
  EXPECT_THAT([] { make_plan(ask({}), quiet_machine()); },
              ThrowsMessage<Error>(HasSubstr("no program given")));
}

TEST(MakePlan, TakesVariablesButNotThoseThatTellAPlace) {
  HostEnvironment here = quiet_machine();
  here.environment = {{"HERE", "yes"}};
  Request request = ask({"a"});
  request.env = {by_flag("A=b=c"), by_flag("EMPTY=")};
  request.pass = {by_flag("HERE"), by_flag("B=2")};
  const Variables variables = make_plan(request, here).variables;
  EXPECT_EQ(variables.at("A"), from_flag<std::string>("b=c", "--env"));
  EXPECT_EQ(variables.at("EMPTY").value, "");
  EXPECT_EQ(variables.at("HERE"), from_flag<std::string>("yes", "-x"));
  EXPECT_EQ(variables.at("B").value, "2");

  for (const char* text : {"A", "=b"}) {
    request.env = {by_flag(text)};
    EXPECT_THAT([&] { make_plan(request, here); },
                ThrowsMessage<Error>(HasSubstr("expected: NAME=VALUE")));
  }
  request.env = {by_flag("RANK=3")};
  EXPECT_THAT([&] { make_plan(request, here); },
              ThrowsMessage<Error>(HasSubstr("cannot set RANK: the launcher sets it")));
  request.env = {};
  request.pass = {by_flag("ABSENT")};
  EXPECT_THAT([&] { make_plan(request, here); },
              ThrowsMessage<Error>(HasSubstr("cannot pass ABSENT: it is not set")));
}

TEST(MakePlan, NamesTheVariableThatSaidIt) {
  Request request = ask({"a"});
  request.nproc_per_node = OptionValue{.text = "2", .source = "PET_NPROC_PER_NODE", .flag = ""};
  const Sourced<int> expected{2, {ValueSource::Variable, "PET_NPROC_PER_NODE"}};
  EXPECT_EQ(make_plan(request, quiet_machine()).nodes.at(0).workers, expected);

  request.nproc_per_node->text = "x";
  EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
              ThrowsMessage<Error>(HasSubstr("found:    'x'  (PET_NPROC_PER_NODE)")));
}

TEST(MakePlan, BindsToCoresWhereSlurmGrantsThem) {
  EXPECT_EQ(make_plan(ask({"a"}), in_slurm_job({"n1", "n2"})).bind.value, Bind::Core);
  EXPECT_EQ(make_plan(ask({"a"}), in_slurm_step({"n1"}, 2, 0)).bind.value, Bind::None);
  Request request = ask({"a"});
  request.bind = by_flag("none");
  EXPECT_EQ(make_plan(request, in_slurm_job({"n1", "n2"})).bind, from_flag(Bind::None, "--bind"));
}

TEST(DescribePlan, ShowsTheSourceOfEveryValue) {
  HostEnvironment here = quiet_machine();
  here.terminal_columns = 120;
  Request request = ask({"train.py", "--name", "two words"});
  request.nproc_per_node = by_flag("4");
  request.grace = by_flag("2.5");
  request.monitor_interval = by_flag("5");
  request.tee = by_flag("0:3,1:1");
  request.env = {by_flag("NCCL_DEBUG=INFO")};
  std::string text = describe(make_plan(request, here));

  Request far = ask({"train.py"});
  far.dialect = Dialect::Deepspeed;
  text += "\n" + describe(make_plan(far, in_slurm_job({"n08", "n09", "n10", "login"})));

  Request unequal = ask({"./train"});
  unequal.dialect = Dialect::Horovodrun;
  unequal.hosts = by_flag("n1:4,n2:4,n4:2");
  unequal.np = by_flag("9");
  unequal.ssh_port = by_flag("2222");
  text += "\n" + describe(make_plan(unequal, quiet_machine()));

  Request hand = ask({"./train"});
  hand.nnodes = by_flag("2:4");
  hand.nproc_per_node = by_flag("gpu");
  hand.rdzv_endpoint = by_flag("n1:29400");
  hand.rdzv_id = by_flag("job1");
  text += "\n" + describe(make_plan(hand, quiet_machine()));

  text += "\n" + describe(make_plan(ask({"./train"}), in_slurm_step({"n1", "n2"}, 4, 5)));

  testing::expect_golden(text, "dry_run.txt");
}

TEST(MakePlan, QuotesWhatItCannotUnderstand) {
  struct Case {
    Option Request::*option;
    const char* text;
    const char* sentence;
  };
  const std::vector<Case> cases = {
      {&Request::nproc_per_node, "0", "invalid value '0' for --nproc-per-node"},
      {&Request::nproc_per_node, "two", "invalid value 'two' for --nproc-per-node"},
      {&Request::nproc_per_node, "-1", "a number from 1 to 4096, cpu, gpu or auto"},
      {&Request::nproc_per_node, "gpu", "cannot start one worker per GPU: this node has no GPU"},
      {&Request::nnodes, "0", "invalid value '0' for --nnodes"},
      {&Request::nnodes, "2:1", "a number of nodes, or MIN:MAX"},
      {&Request::nnodes, "1:2:3", "invalid value '1:2:3' for --nnodes"},
      {&Request::np, "x", "invalid value 'x' for -np"},
      {&Request::node_rank, "-1", "invalid value '-1' for --node-rank"},
      {&Request::node_rank, "1", "--node-rank 1 is out of range for 1 node"},
      {&Request::master_port, "0", "invalid value '0' for --master-port"},
      {&Request::master_port, "65536", "a number from 1 to 65535"},
      {&Request::master_addr, "not a host", "invalid value 'not a host' for --master-addr"},
      {&Request::local_addr, "a,b", "a host name or an address"},
      {&Request::ssh_port, "ssh", "invalid value 'ssh' for --ssh-port"},
      {&Request::grace, "-1", "invalid value '-1' for --grace"},
      {&Request::grace, "soon", "seconds from 0 to 604800"},
      {&Request::grace, "nan", "invalid value 'nan' for --grace"},
      {&Request::timeout, "1:30", "invalid value '1:30' for --timeout"},
      {&Request::timeout, "0", "seconds or HH:MM:SS"},
      {&Request::start_timeout, "0", "seconds from 1 to 604800"},
      {&Request::monitor_interval, "often", "invalid value 'often' for --monitor-interval"},
      {&Request::max_restarts, "-1", "invalid value '-1' for --max-restarts"},
      {&Request::bind, "socket", "core, gpu or none"},
      {&Request::bind, "gpu", "cannot bind workers to GPUs: this node has no GPU"},
      {&Request::redirects, "4", "invalid value '4' for --redirects"},
      {&Request::redirects, "0:", "invalid value '0:' for --redirects"},
      {&Request::tee, "0:1,x", "0 none, 1 stdout, 2 stderr, 3 both; or LOCAL_RANK:N,..."},
      {&Request::tee, "", "invalid value '' for --tee"},
      {&Request::local_ranks_filter, "0,a", "invalid value '0,a' for --local-ranks-filter"},
      {&Request::run_dir, "", "invalid value '' for --run-dir"},
      {&Request::network_interfaces, "eth0,,ib0", "names, separated by commas"},
      {&Request::rdzv_backend, "zeus", "c10d or static"},
      {&Request::rdzv_backend, "etcd-v2", "rendezvous backend etcd-v2 is not supported"},
      {&Request::rdzv_endpoint, "n1:x", "invalid value 'n1:x' for --rdzv-endpoint"},
      {&Request::rdzv_conf, "timeout", "KEY=VALUE"},
      {&Request::rdzv_conf, "join_timeot=3", "--rdzv-conf join_timeout=3"},
      {&Request::rdzv_conf, "protocol=https", "unknown key 'protocol' in --rdzv-conf"},
      {&Request::rdzv_conf, "join_timeout=x", "invalid value 'x' for --rdzv-conf join_timeout"},
      {&Request::rdzv_conf, "is_host=maybe", "expected: 0 or 1"},
      {&Request::rdzv_conf, "store_type=file", "the store type 'file' is not supported"},
      {&Request::start_method, "fork", "the start method 'fork' is not supported"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    Request request = ask({"a"});
    request.*one.option = by_flag(one.text);
    EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
                ThrowsMessage<Error>(AllOf(HasSubstr(one.sentence), HasSubstr("try:"))));
  }
}

TEST(MakePlan, TakesEveryValueWithItsSource) {
  Request request = ask({"a"});
  request.grace = by_flag("1.5");
  request.timeout = by_flag("01:30:10");
  request.max_restarts = by_flag("3");
  request.role = by_flag("trainer");
  request.local_addr = by_flag("10.0.0.1");
  request.master_addr = by_flag("[fd00::1]");
  request.network_interfaces = by_flag("ib0,eth0");
  request.ssh_identity = by_flag("keys/id");
  request.run_dir = by_flag("../out");
  request.log_dir = by_flag("logs");
  request.redirects = by_flag("3");
  request.tee = by_flag("0:1,2:3");
  request.local_ranks_filter = by_flag("0,2");
  request.output_filename = by_flag("/abs/out");
  request.start_method = by_flag("spawn");
  request.may_share_gpus = true;

  const LaunchPlan plan = make_plan(request, quiet_machine());

  EXPECT_EQ(plan.grace_seconds, from_flag(1.5, "--grace"));
  EXPECT_EQ(plan.timeout_seconds, from_flag(5410.0, "--timeout"));
  EXPECT_EQ(plan.max_restarts, from_flag(3, "--max-restarts"));
  EXPECT_EQ(plan.role, from_flag<std::string>("trainer", "--role"));
  EXPECT_EQ(plan.local_addr.value, "10.0.0.1");
  EXPECT_EQ(plan.master_addr, from_flag<std::string>("fd00::1", "--master-addr"));
  EXPECT_EQ(plan.interfaces.value, "ib0,eth0");
  EXPECT_EQ(plan.ssh_identity.value, "/home/me/keys/id");
  EXPECT_EQ(plan.run_directory, from_flag<std::string>("/home/out", "--run-dir"));
  EXPECT_EQ(plan.output.log_dir, "/home/me/logs");
  EXPECT_EQ(plan.output.redirects.fallback, 3);
  EXPECT_EQ(plan.output.tee.by_local, (std::map<int, int>{{0, 1}, {2, 3}}));
  EXPECT_THAT(plan.output.local_ranks_filter, ElementsAre(0, 2));
  EXPECT_EQ(plan.output.output_filename, "/abs/out");
  EXPECT_TRUE(plan.may_share_gpus);
  EXPECT_THAT(
      plan.remarks,
      ElementsAre("--ssh-identity-file keys/id is not needed: no host is started over ssh"));
}

TEST(MakePlan, StartsMpsWhenAsked) {
  Request request = ask({"a"});
  request.may_share_gpus = true;
  EXPECT_FALSE(make_plan(request, quiet_machine()).starts_mps);
  request.gpu_sharing = by_flag("time-slicing");
  EXPECT_FALSE(make_plan(request, quiet_machine()).starts_mps);
  request.gpu_sharing = by_flag("mps");

  const LaunchPlan plan = make_plan(request, quiet_machine());

  EXPECT_TRUE(plan.starts_mps);
  EXPECT_THAT(describe(plan), HasSubstr("may be shared; each agent starts MPS"));
  EXPECT_EQ(contract::parse_plan(contract::to_json(plan)), plan);
}

TEST(MakePlan, RefusesMpsThatNoAgentCouldStop) {
  Request request = ask({"a"});
  request.may_share_gpus = true;
  request.gpu_sharing = by_flag("mps");
  EXPECT_THAT([&] { make_plan(request, under_mpirun(4, 4, 0)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cannot start MPS: each task becomes a worker"),
                                         HasSubstr("srun --ntasks-per-node=1"))));
  request.gpu_sharing = by_flag("mpss");
  EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("invalid value 'mpss' for --share-gpus"),
                                         HasSubstr("mps or time-slicing"))));
}

TEST(MakePlan, PutsStreamsIntoTheRunDirectoryByDefault) {
  Request request = ask({"a"});
  request.tee = by_flag("3");
  request.run_dir = by_flag("r");
  EXPECT_EQ(make_plan(request, quiet_machine()).output.log_dir, "/home/me/r/streams");
}

TEST(MakePlan, ReadsTheRulesOfTheRendezvous) {
  Request request = ask({"a"});
  request.nnodes = by_flag("2");
  request.rdzv_endpoint = by_flag("n1");
  request.rdzv_conf = by_flag("join_timeout=60, last_call_timeout=5,read_timeout=9,rank=1");

  const LaunchPlan plan = make_plan(request, quiet_machine());

  EXPECT_EQ(plan.start_timeout_seconds, from_flag(60.0, "--rdzv-conf"));
  EXPECT_EQ(plan.last_call_seconds, from_flag(5.0, "--rdzv-conf"));
  EXPECT_EQ(plan.rendezvous.node, 1);
  EXPECT_THAT(plan.remarks,
              ElementsAre("--rdzv-conf read_timeout=9 is not needed: a node that does not answer "
                          "counts as lost"));
}

TEST(MakePlan, WaitsAsLongAsTheDialectDoes) {
  Request request = ask({"a"});
  request.dialect = Dialect::Horovodrun;
  HostEnvironment here = quiet_machine();
  EXPECT_EQ(make_plan(request, here).start_timeout_seconds.value, 30);
  here.environment = {{"HOROVOD_START_TIMEOUT", "45"}};
  EXPECT_EQ(make_plan(request, here).start_timeout_seconds.value, 45);
  request.start_timeout = by_flag("50");
  EXPECT_EQ(make_plan(request, here).start_timeout_seconds.value, 50);
}

}  // namespace
}  // namespace lockstep::plan
