// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <gmock/gmock.h>

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
using ::testing::Pair;
using ::testing::ThrowsMessage;

Surroundings quiet_machine() {
  Surroundings here;
  here.node = "node-a";
  here.directory = "/home/me";
  here.cores = 8;
  here.free_port = 23456;
  here.timestamp = "20240131-093000";
  here.short_id = "beef";
  here.command_time = "1706693400.125";
  return here;
}

Request ask(std::vector<std::string> program) {
  Request request;
  request.program = std::move(program);
  return request;
}

TEST(MakePlan, HasADefaultForEverythingButTheProgram) {
  const LaunchPlan plan = make_plan(ask({"build/bin/mnist", "-s", "ddp"}), quiet_machine());

  EXPECT_THAT(plan.command, ElementsAre("build/bin/mnist", "-s", "ddp"));
  EXPECT_EQ(plan.run_id, "mnist-20240131-093000-beef");
  EXPECT_EQ(plan.run_directory, from_default<std::string>("/home/me/runs/" + plan.run_id));
  EXPECT_EQ(plan.nodes.at(0).workers, from_default(1));
  EXPECT_EQ(plan.master_addr, from_default<std::string>("127.0.0.1"));
  EXPECT_EQ(plan.master_port, from_probe(23456, "free on this machine"));
  EXPECT_EQ(plan.grace_seconds, from_default(30.0));
  EXPECT_EQ(world_size(plan), 1);
}

TEST(MakePlan, RunsPythonProgramsUnderPythonWithoutBuffering) {
  const LaunchPlan plan = make_plan(ask({"train.py", "--lr", "1"}), quiet_machine());

  EXPECT_THAT(plan.command, ElementsAre("python3", "train.py", "--lr", "1"));
  EXPECT_EQ(plan.variables.at("PYTHONUNBUFFERED").value, "1");
}

TEST(MakePlan, CountsWorkersByNumberCoreOrGpu) {
  Surroundings here = quiet_machine();
  Request request = ask({"a"});
  const auto workers = [&](const char* text) {
    request.nproc_per_node = text;
    return make_plan(request, here).nodes.at(0).workers.value;
  };

  EXPECT_EQ(workers("3"), 3);
  EXPECT_EQ(workers("cpu"), 8);
  EXPECT_EQ(workers("auto"), 8);
  here.gpus = 2;
  EXPECT_EQ(workers("auto"), 2);
  EXPECT_EQ(workers("gpu"), 2);
}

TEST(MakePlan, SharesTheCoresUnlessTheUserHas) {
  Surroundings here = quiet_machine();
  Request request = ask({"a"});
  const auto threads = [&](const char* workers) {
    request.nproc_per_node = workers;
    const LaunchPlan plan = make_plan(request, here);
    return worker_environment(plan, place_of(plan, 0, 0, 0), here.environment)
        .at("OMP_NUM_THREADS");
  };

  EXPECT_EQ(threads("2"), "4");
  EXPECT_EQ(threads("3"), "2");
  EXPECT_EQ(threads("16"), "1");
  here.environment.emplace("OMP_NUM_THREADS", "5,2");
  EXPECT_EQ(threads("2"), "5,2");
  request.env = {"OMP_NUM_THREADS=7"};
  EXPECT_EQ(threads("2"), "7");
}

TEST(MakePlan, QuotesWhatItCannotUnderstand) {
  struct Case {
    std::optional<std::string> Request::*option;
    const char* text;
    const char* sentence;
  };
  const std::vector<Case> cases = {
      {&Request::nproc_per_node, "0", "cannot understand --nproc-per-node '0'"},
      {&Request::nproc_per_node, "two", "cannot understand --nproc-per-node 'two'"},
      {&Request::nproc_per_node, "-1", "a number from 1 to 4096, cpu, gpu or auto"},
      {&Request::nproc_per_node, "gpu", "cannot start one worker per GPU: there is none here"},
      {&Request::master_port, "0", "cannot understand --master-port '0'"},
      {&Request::master_port, "65536", "a number from 1 to 65535"},
      {&Request::grace, "-1", "cannot understand --grace '-1'"},
      {&Request::grace, "soon", "seconds from 0 to 86400"},
      {&Request::grace, "nan", "cannot understand --grace 'nan'"},
      {&Request::run_dir, "", "cannot understand --run-dir ''"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    Request request = ask({"a"});
    request.*one.option = one.text;
    EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
                ThrowsMessage<Error>(AllOf(HasSubstr(one.sentence), HasSubstr("try:"))));
  }
}

TEST(MakePlan, RefusesToRunNothing) {
  EXPECT_THAT([] { make_plan(ask({}), quiet_machine()); },
              ThrowsMessage<Error>(HasSubstr("cannot run: there is no program")));
}

TEST(MakePlan, TakesVariablesButNotThoseThatTellAPlace) {
  Request request = ask({"a"});
  request.env = {"A=b=c", "EMPTY="};
  EXPECT_EQ(make_plan(request, quiet_machine()).variables.at("A").value, "b=c");
  EXPECT_EQ(make_plan(request, quiet_machine()).variables.at("EMPTY").value, "");

  for (const char* text : {"A", "=b"}) {
    request.env = {text};
    EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
                ThrowsMessage<Error>(HasSubstr("expected: NAME=VALUE")));
  }
  request.env = {"RANK=3"};
  EXPECT_THAT([&] { make_plan(request, quiet_machine()); },
              ThrowsMessage<Error>(HasSubstr("cannot set RANK: it tells a worker its place")));
}

TEST(PlaceOf, CountsRanksNodeByNode) {
  LaunchPlan plan = make_plan(ask({"a"}), quiet_machine());
  plan.nodes = {{.name = "a", .workers = {2, {}}, .variables = {}},
                {.name = "b", .workers = {3, {}}, .variables = {}}};

  const contract::WorkerPlace last = place_of(plan, 1, 2, 4);

  EXPECT_EQ(last.rank, 4);
  EXPECT_EQ(last.world_size, 5);
  EXPECT_EQ(last.local_rank, 2);
  EXPECT_EQ(last.local_world_size, 3);
  EXPECT_EQ(last.node_rank, 1);
  EXPECT_EQ(last.nodes, 2);
  EXPECT_EQ(last.attempt, 4);
  EXPECT_EQ(last.run_directory, plan.run_directory.value);
}

TEST(WorkerEnvironment, KeepsTheUsersOwnAndDropsWhatAnOuterRunLeft) {
  Surroundings here = quiet_machine();
  here.terminal_columns = std::nullopt;
  const LaunchPlan plan = make_plan(ask({"a"}), here);

  const os::Environment variables = worker_environment(plan,
                                                       place_of(plan, 0, 0, 0),
                                                       {{"HOME", "/home/me"},
                                                        {"RANK", "9"},
                                                        {"LOCKSTEP_TERMINAL_COLUMNS", "80"},
                                                        {"LOCKSTEP_FORK_OFFER", "3,4"}});

  EXPECT_THAT(variables, Contains(Pair("HOME", "/home/me")));
  EXPECT_THAT(variables, Contains(Pair("RANK", "0")));
  EXPECT_THAT(variables, Contains(Pair("LOCKSTEP_COMMAND_TIME", "1706693400.125")));
  EXPECT_THAT(variables, Not(Contains(Key("LOCKSTEP_TERMINAL_COLUMNS"))));
  EXPECT_THAT(variables, Not(Contains(Key("LOCKSTEP_FORK_OFFER"))));
}

TEST(DescribePlan, ShowsTheSourceOfEveryValue) {
  Surroundings here = quiet_machine();
  here.terminal_columns = 120;
  Request request = ask({"train.py", "--name", "two words"});
  request.nproc_per_node = "4";
  request.grace = "2.5";
  request.env = {"NCCL_DEBUG=INFO"};

  testing::expect_golden(describe(make_plan(request, here)), "dry_run.txt");
}

}  // namespace
}  // namespace lockstep::plan
