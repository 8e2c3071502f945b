// SPDX-License-Identifier: Apache-2.0
// The number of workers on each node, and its source.
#include <gmock/gmock.h>

#include "launcher/plan/plan.h"
#include "launcher/plan/scene.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<int> counts_of(const LaunchPlan& plan) {
  std::vector<int> counts;
  for (const PlannedNode& node : plan.nodes) {
    counts.push_back(node.workers.value);
  }
  return counts;
}

std::vector<int> counts_for(const Request& request, const HostEnvironment& here) {
  return counts_of(make_plan(request, here));
}

void expect_refused(const Request& request,
                    const HostEnvironment& here,
                    const std::string& sentence,
                    const std::vector<std::string>& further) {
  for (const std::string& text : further) {
    EXPECT_THAT([&] { make_plan(request, here); },
                ThrowsMessage<Error>(AllOf(HasSubstr(sentence), HasSubstr(text))));
  }
}

TEST(Workers, AreCountedByNumberCoreOrGpu) {
  HostEnvironment here = quiet_machine();
  Request request = ask({"a"});
  const auto workers = [&](const char* text) {
    request.nproc_per_node = by_flag(text);
    return counts_for(request, here);
  };

  EXPECT_THAT(workers("3"), ElementsAre(3));
  EXPECT_THAT(workers("cpu"), ElementsAre(8));
  EXPECT_THAT(workers("auto"), ElementsAre(8));
  here.gpus = 2;
  EXPECT_THAT(workers("auto"), ElementsAre(2));
  EXPECT_THAT(workers("gpu"), ElementsAre(2));
}

TEST(Workers, AreCountedOnEachNodeWhereOnlyItCanTell) {
  Request request = ask({"a"});
  request.nproc_per_node = by_flag("gpu");
  HostEnvironment here = in_slurm_job({"n1", "n2"});
  LaunchPlan plan = make_plan(request, here);
  EXPECT_THAT(counts_of(plan), ElementsAre(0, 0));
  EXPECT_EQ(plan.worker_rule, WorkerRule::Gpu);

  here.job->gpus_per_node = 4;
  plan = make_plan(request, here);
  EXPECT_THAT(counts_of(plan), ElementsAre(4, 4));
  EXPECT_EQ(plan.worker_rule, WorkerRule::Number);

  here.job->cpus_per_node = {16, 8};
  request.nproc_per_node = by_flag("cpu");
  EXPECT_THAT(counts_for(request, here), ElementsAre(16, 8));
}

TEST(Workers, AreWhatSlurmWasAskedFor) {
  HostEnvironment here = in_slurm_job({"n1", "n2"});
  EXPECT_THAT(counts_for(ask({"a"}), here), ElementsAre(1, 1));

  here.job->gpus_per_node = 4;
  EXPECT_THAT(counts_for(ask({"a"}), here), ElementsAre(4, 4));
  here.job->asked_tasks_per_node = 1;
  EXPECT_THAT(counts_for(ask({"a"}), here), ElementsAre(4, 4));
  here.job->asked_tasks_per_node = 2;
  EXPECT_THAT(counts_for(ask({"a"}), here), ElementsAre(2, 2));
  EXPECT_EQ(make_plan(ask({"a"}), here).nodes.at(0).workers.source,
            (Source{ValueSource::Probe, "Slurm job 4711, --ntasks-per-node=2"}));

  here.job->asked_tasks_per_node.reset();
  here.job->asked_tasks = 5;
  here.job->tasks_per_node = {3, 2};
  EXPECT_THAT(counts_for(ask({"a"}), here), ElementsAre(3, 2));
  Request second = ask({"a"});
  second.hosts = by_flag("n2");
  EXPECT_THAT(counts_for(second, here), ElementsAre(1));
}

TEST(Workers, AreWhatSlurmWasAskedForOnThisMachineToo) {
  HostEnvironment here = in_slurm_job({"n1"});
  here.node = "n1.example.org";
  here.job->asked_tasks = 4;
  here.job->tasks_per_node = {4};
  EXPECT_THAT(counts_for(ask({"a"}), here), ElementsAre(4));
}

TEST(Workers, OfAHostAreItsSlots) {
  Request request = ask({"a"});
  request.hosts = by_flag("n1:4,n2");
  EXPECT_THAT(counts_for(request, quiet_machine()), ElementsAre(4, 1));
  request.hosts = by_flag("n1:4,n2:2");
  request.nproc_per_node = by_flag("2");
  EXPECT_THAT(counts_for(request, quiet_machine()), ElementsAre(2, 2));
}

TEST(Workers, InAllFillTheSlotsFromTheFirstHostOn) {
  Request request = ask({"a"});
  request.hosts = by_flag("n1:4,n2:2,n3:2");
  request.np = by_flag("5");
  EXPECT_THAT(counts_for(request, quiet_machine()), ElementsAre(4, 1));

  request.np = by_flag("9");
  expect_refused(request,
                 quiet_machine(),
                 "cannot start 9 workers in 8 slots",
                 {"-np 9  (command line)", "8 slots  (-H)", "-np 8"});
}

TEST(Workers, InAllAreSharedEquallyWithoutSlots) {
  Request request = ask({"a"});
  request.np = by_flag("3");
  EXPECT_THAT(counts_for(request, quiet_machine()), ElementsAre(3));

  request.np = by_flag("4");
  HostEnvironment here = in_slurm_job({"n1", "n2"});
  EXPECT_THAT(counts_for(request, here), ElementsAre(2, 2));
  request.nproc_per_node = by_flag("4");
  EXPECT_THAT(counts_for(request, here), ElementsAre(4)) << "one node is enough";
  request.nproc_per_node.reset();
  request.np = by_flag("5");
  expect_refused(request,
                 here,
                 "cannot divide 5 workers among 2 nodes",
                 {"-np 5  (command line)", "2 nodes  (Slurm job 4711)", "-np 6"});
  here.job->asked_tasks = 5;
  here.job->tasks_per_node = {2, 3};
  EXPECT_THAT(counts_for(request, here), ElementsAre(2, 3));
}

TEST(Workers, ContradictionsNameBothSources) {
  Request request = ask({"a"});
  request.nproc_per_node = by_flag("4");

  HostEnvironment job = in_slurm_job({"n1", "n2"});
  job.job->asked_tasks_per_node = 2;
  expect_refused(request,
                 job,
                 "cannot start 4 workers on n1: the job requested 2 tasks there",
                 {"--nproc-per-node 4  (command line)",
                  "--ntasks-per-node=2  (Slurm job 4711)",
                  "--nproc-per-node 2, or drop it"});
  expect_refused(request,
                 in_slurm_step({"n1", "n2"}, 2, 0),
                 "cannot start 4 workers: each of the 2 tasks on this node becomes one worker",
                 {"--nproc-per-node 4  (command line)",
                  "2 tasks on this node  (Slurm step 4711.0)",
                  "srun --ntasks-per-node=1 lockstep run --nproc-per-node 4"});
  EXPECT_THAT(counts_for(request, in_slurm_step({"n1", "n2"}, 4, 0)), ElementsAre(4, 4));

  Request hosts = request;
  hosts.hosts = by_flag("n1:2");
  expect_refused(hosts,
                 quiet_machine(),
                 "cannot start 4 workers on n1",
                 {"--nproc-per-node 4  (command line)", "2 slots  (-H)", "--nproc-per-node 2"});

  Request total = request;
  total.np = by_flag("6");
  expect_refused(total,
                 quiet_machine(),
                 "cannot divide 6 workers into groups of 4",
                 {"-np 6", "--nproc-per-node 4", "-np 8"});
  total.np = by_flag("8");
  total.nnodes = by_flag("1");
  expect_refused(total,
                 quiet_machine(),
                 "-np 8 contradicts the other sizes",
                 {"-np 8", "--nnodes 1", "drop -np: 1 x 4 = 4 workers"});

  Request tasks = ask({"a"});
  tasks.np = by_flag("2");
  expect_refused(tasks,
                 under_mpirun(4, 4, 0),
                 "cannot start 2 workers: each of the 4 tasks becomes one worker",
                 {"-np 2  (command line)", "4 tasks  (Open MPI)", "drop -np"});
}

TEST(Workers, DoNotOutnumberGpusUnlessAsked) {
  HostEnvironment here = quiet_machine();
  here.gpus = 2;
  Request request = ask({"a"});
  request.nproc_per_node = by_flag("4");
  expect_refused(request,
                 here,
                 "cannot start 4 workers on 2 GPUs of node-a",
                 {"--nproc-per-node 4  (command line)",
                  "2 GPUs  (/dev and CUDA_VISIBLE_DEVICES)",
                  "--nproc-per-node 2",
                  "--share-gpus"});
  request.may_share_gpus = true;
  EXPECT_THAT(counts_for(request, here), ElementsAre(4));

  HostEnvironment job = in_slurm_job({"n1", "n2"});
  job.job->gpus_per_node = 2;
  job.job->asked_tasks_per_node = 4;
  expect_refused(ask({"a"}),
                 job,
                 "cannot start 4 workers on 2 GPUs of n1",
                 {"--ntasks-per-node=4", "2 GPUs  (Slurm job 4711)", "--nproc-per-node 2"});
  job.environment = {{"CUDA_VISIBLE_DEVICES", ""}};
  EXPECT_THAT(counts_for(ask({"a"}), job), ElementsAre(4, 4)) << "without GPUs on purpose";
}

TEST(Workers, OneForEachGpuNeedASliceOfAGpuInMigMode) {
  HostEnvironment here = quiet_machine();
  here.no_gpus = "no permission to use the MIG slices of GPU 0";
  Request request = ask({"a"});
  request.nproc_per_node = by_flag("gpu");
  expect_refused(request,
                 here,
                 "cannot start one worker per GPU: this node has no GPU",
                 {"no permission to use the MIG slices of GPU 0  (NVML)",
                  "--gres=gpu:PROFILE:COUNT",
                  "nvidia-smi mig -cgi"});
  request.nproc_per_node = by_flag("2");
  EXPECT_THAT(make_plan(request, here).remarks,
              ElementsAre("the workers have no GPU: no permission to use the MIG slices of GPU 0"));
}

TEST(Workers, OfDeepspeedAreTheGpus) {
  HostEnvironment here = quiet_machine();
  Request request = ask({"a"});
  request.dialect = Dialect::Deepspeed;
  EXPECT_THAT(counts_for(request, here), ElementsAre(1));
  here.gpus = 4;
  EXPECT_THAT(counts_for(request, here), ElementsAre(4));
  request.nproc_per_node = OptionValue{.text = "8", .source = "command line", .flag = "--num_gpus"};
  expect_refused(request, here, "cannot start 8 workers on 4 GPUs", {"--num_gpus 8"});
}

}  // namespace
}  // namespace lockstep::plan
