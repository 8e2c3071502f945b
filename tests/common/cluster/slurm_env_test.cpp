// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/slurm_env.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::StartsWith;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

// `changes` over `base`; a value of nullopt removes.
using Changes = std::vector<std::pair<std::string, std::optional<std::string>>>;

os::Environment with(os::Environment base, const Changes& changes) {
  for (const auto& [name, value] : changes) {
    if (value) {
      base.insert_or_assign(name, *value);
    } else {
      base.erase(name);
    }
  }
  return base;
}

// The variables of Slurm 22.05 in eight contexts, recorded on a real cluster.

// A: the batch script of -N1 -n1.
os::Environment batch_on_one_node() {
  return {{"ENVIRONMENT", "BATCH"},
          {"HOSTNAME", "n1"},
          {"SLURMD_NODENAME", "n1"},
          {"SLURM_CLUSTER_NAME", "lab"},
          {"SLURM_CPUS_ON_NODE", "1"},
          {"SLURM_GTIDS", "0"},
          {"SLURM_JOBID", "1"},
          {"SLURM_JOB_CPUS_PER_NODE", "1"},
          {"SLURM_JOB_ID", "1"},
          {"SLURM_JOB_NAME", "envdump"},
          {"SLURM_JOB_NODELIST", "n1"},
          {"SLURM_JOB_NUM_NODES", "1"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NNODES", "1"},
          {"SLURM_NODEID", "0"},
          {"SLURM_NODELIST", "n1"},
          {"SLURM_NODE_ALIASES", "(null)"},
          {"SLURM_NPROCS", "1"},
          {"SLURM_NTASKS", "1"},
          {"SLURM_PROCID", "0"},
          {"SLURM_TASKS_PER_NODE", "1"},
          {"SLURM_TASK_PID", "73"}};
}

// B: its task under srun.
os::Environment task_on_one_node() {
  return with(batch_on_one_node(),
              {{"SLURM_LAUNCH_NODE_IPADDR", "10.12.0.1"},
               {"SLURM_SRUN_COMM_HOST", "10.12.0.1"},
               {"SLURM_STEPID", "0"},
               {"SLURM_STEP_ID", "0"},
               {"SLURM_STEP_NODELIST", "n1"},
               {"SLURM_STEP_NUM_NODES", "1"},
               {"SLURM_STEP_NUM_TASKS", "1"},
               {"SLURM_STEP_TASKS_PER_NODE", "1"}});
}

// C: the batch script of -N2 --ntasks-per-node=1.
os::Environment batch_on_two_nodes() {
  return with(batch_on_one_node(),
              {{"SLURM_JOBID", "3"},
               {"SLURM_JOB_CPUS_PER_NODE", "1(x2)"},
               {"SLURM_JOB_ID", "3"},
               {"SLURM_JOB_NODELIST", "n[1-2]"},
               {"SLURM_JOB_NUM_NODES", "2"},
               {"SLURM_NNODES", "2"},
               {"SLURM_NODELIST", "n[1-2]"},
               {"SLURM_NPROCS", "2"},
               {"SLURM_NTASKS", "2"},
               {"SLURM_NTASKS_PER_NODE", "1"},
               {"SLURM_TASKS_PER_NODE", "1(x2)"}});
}

// D: its task 1, which has node 0's HOSTNAME.
os::Environment task_on_second_node() {
  return with(batch_on_two_nodes(),
              {{"SLURMD_NODENAME", "n2"},
               {"SLURM_GTIDS", "1"},
               {"SLURM_LAUNCH_NODE_IPADDR", "10.12.0.1"},
               {"SLURM_NODEID", "1"},
               {"SLURM_PROCID", "1"},
               {"SLURM_STEPID", "0"},
               {"SLURM_STEP_ID", "0"},
               {"SLURM_STEP_NODELIST", "n[1-2]"},
               {"SLURM_STEP_NUM_NODES", "2"},
               {"SLURM_STEP_NUM_TASKS", "2"},
               {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
}

// E: the batch script of -N2 --ntasks-per-node=2 --gpus-per-node=2.
os::Environment batch_with_gpus() {
  return with(batch_on_two_nodes(),
              {{"CUDA_VISIBLE_DEVICES", "0,1"},
               {"SLURM_CPUS_ON_NODE", "2"},
               {"SLURM_GPUS_ON_NODE", "2"},
               {"SLURM_GPUS_PER_NODE", "2"},
               {"SLURM_JOBID", "4"},
               {"SLURM_JOB_CPUS_PER_NODE", "2(x2)"},
               {"SLURM_JOB_GPUS", "0,1"},
               {"SLURM_JOB_ID", "4"},
               {"SLURM_NPROCS", "4"},
               {"SLURM_NTASKS", "4"},
               {"SLURM_NTASKS_PER_NODE", "2"},
               {"SLURM_TASKS_PER_NODE", "2(x2)"}});
}

Changes last_of_four_tasks() {
  return {{"SLURMD_NODENAME", "n2"},
          {"SLURM_GTIDS", "2,3"},
          {"SLURM_LAUNCH_NODE_IPADDR", "10.12.0.1"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_PROCID", "3"},
          {"SLURM_STEPID", "0"},
          {"SLURM_STEP_GPUS", "0,1"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "n[1-2]"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}};
}

// F: its task 3.
os::Environment task_with_gpus() {
  return with(batch_with_gpus(), last_of_four_tasks());
}

// G: task 3 of a direct srun with the same request, from the login node.
os::Environment task_of_direct_srun() {
  return with(with(batch_with_gpus(), last_of_four_tasks()),
              {{"ENVIRONMENT", {}},
               {"HOSTNAME", {}},
               {"SLURM_GPUS_PER_NODE", {}},
               {"SLURM_JOBID", "14"},
               {"SLURM_JOB_GPUS", {}},
               {"SLURM_JOB_ID", "14"},
               {"SLURM_LAUNCH_NODE_IPADDR", "10.12.0.254"}});
}

// H: the shell of salloc with the same request, on the login node.
os::Environment shell_of_salloc() {
  return {{"SLURM_CLUSTER_NAME", "lab"},
          {"SLURM_GPUS_PER_NODE", "2"},
          {"SLURM_JOBID", "17"},
          {"SLURM_JOB_CPUS_PER_NODE", "2(x2)"},
          {"SLURM_JOB_ID", "17"},
          {"SLURM_JOB_NAME", "interactive"},
          {"SLURM_JOB_NODELIST", "n[1-2]"},
          {"SLURM_JOB_NUM_NODES", "2"},
          {"SLURM_NNODES", "2"},
          {"SLURM_NODELIST", "n[1-2]"},
          {"SLURM_NODE_ALIASES", "(null)"},
          {"SLURM_NPROCS", "4"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_NTASKS_PER_NODE", "2"},
          {"SLURM_SUBMIT_HOST", "ctl"},
          {"SLURM_TASKS_PER_NODE", "2(x2)"}};
}

SlurmJob job_of(const std::string& id, std::vector<std::string> nodes, std::vector<int> cpus) {
  SlurmJob job;
  job.id = id;
  job.nodes = std::move(nodes);
  job.cpus_per_node = std::move(cpus);
  return job;
}

SlurmJob job_with_tasks(SlurmJob job, std::vector<int> tasks_per_node, int asked_tasks) {
  job.tasks_per_node = std::move(tasks_per_node);
  job.asked_tasks = asked_tasks;
  return job;
}

TEST(SlurmJob, IsAbsentWithoutSlurm) {
  EXPECT_EQ(find_slurm_job({}), std::nullopt);
  EXPECT_EQ(find_slurm_job({{"SLURM_CONF", "/etc/slurm.conf"}}), std::nullopt);
  EXPECT_EQ(find_slurm_job({{"SLURM_JOB_ID", "1"}}), std::nullopt);
  EXPECT_EQ(find_slurm_job({{"SLURM_JOB_NODELIST", "n1"}}), std::nullopt);
}

TEST(SlurmJob, IsReadInBatchScripts) {
  EXPECT_EQ(find_slurm_job(batch_on_one_node()), job_with_tasks(job_of("1", {"n1"}, {1}), {1}, 1));

  SlurmJob two = job_with_tasks(job_of("3", {"n1", "n2"}, {1, 1}), {1, 1}, 2);
  two.asked_tasks_per_node = 1;
  EXPECT_EQ(find_slurm_job(batch_on_two_nodes()), two);

  SlurmJob gpus = job_with_tasks(job_of("4", {"n1", "n2"}, {2, 2}), {2, 2}, 4);
  gpus.asked_tasks_per_node = 2;
  gpus.gpus_per_node = 2;
  EXPECT_EQ(find_slurm_job(batch_with_gpus()), gpus);
}

TEST(SlurmJob, IsReadInSallocsShell) {
  SlurmJob job = job_with_tasks(job_of("17", {"n1", "n2"}, {2, 2}), {2, 2}, 4);
  job.asked_tasks_per_node = 2;
  job.gpus_per_node = 2;

  EXPECT_EQ(find_slurm_job(shell_of_salloc()), job);
}

TEST(SlurmJob, LeavesTheStepsNumbersOutInsideAStep) {
  EXPECT_EQ(find_slurm_job(task_on_one_node()), job_of("1", {"n1"}, {1}));
  EXPECT_EQ(find_slurm_job(task_on_second_node()), job_of("3", {"n1", "n2"}, {1, 1}));

  SlurmJob gpus = job_of("4", {"n1", "n2"}, {2, 2});
  gpus.gpus_per_node = 2;
  EXPECT_EQ(find_slurm_job(task_with_gpus()), gpus);
  gpus.id = "14";
  EXPECT_EQ(find_slurm_job(task_of_direct_srun()), gpus);
}

TEST(SlurmJob, IsNotConfusedByAStepOnOneOfItsNodes) {
  // srun stores numbers of the step in variables named after the job.
  const auto job = find_slurm_job(with(task_on_one_node(),
                                       {{"SLURM_JOB_NODELIST", "n[1-2]"},
                                        {"SLURM_JOB_CPUS_PER_NODE", "1(x2)"},
                                        {"SLURM_JOB_NUM_NODES", "1"},
                                        {"SLURM_TASKS_PER_NODE", "1"}}));

  EXPECT_EQ(job, job_of("1", {"n1", "n2"}, {1, 1}));
}

TEST(SlurmJob, KeepsItsNodesUnderMpirunThatRenamesThoseOfItsDaemons) {
  // Recorded with Slurm 26.05 and Open MPI 6.0 on the second node.
  const os::Environment process = with(task_on_one_node(),
                                       {{"SLURM_JOB_NODELIST", "n2"},
                                        {"SLURM_NODELIST", "n[1-2]"},
                                        {"SLURM_JOB_CPUS_PER_NODE", "1(x2)"},
                                        {"SLURM_JOB_NUM_NODES", std::nullopt},
                                        {"SLURM_STEP_NODELIST", "n2"},
                                        {"SLURM_TASKS_PER_NODE", "1"}});

  EXPECT_EQ(find_slurm_job(process), job_of("1", {"n1", "n2"}, {1, 1}));
  EXPECT_THAT(
      [&] {
        find_slurm_job(with(process, {{"SLURM_NODELIST", "n[1-3]"}}));
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("SLURM_JOB_CPUS_PER_NODE: 1(x2)"), HasSubstr("SLURM_JOB_NODELIST:"))));
}

TEST(SlurmJob, TakesSlurm26sBatchStepForNoStep) {
  const auto job =
      find_slurm_job(with(batch_on_two_nodes(), {{"SLURM_STEP_ID", "-5"}, {"SLURM_STEPID", "-5"}}));

  EXPECT_THAT(job->tasks_per_node, ElementsAre(1, 1));
}

TEST(SlurmJob, KnowsWhatWasNotAskedFor) {
  // -N2 only: no SLURM_NTASKS.
  const auto job = find_slurm_job(
      with(batch_on_two_nodes(),
           {{"SLURM_NTASKS", {}}, {"SLURM_NPROCS", {}}, {"SLURM_NTASKS_PER_NODE", {}}}));

  EXPECT_EQ(job->asked_tasks, std::nullopt);
  EXPECT_EQ(job->asked_tasks_per_node, std::nullopt);
  EXPECT_THAT(job->tasks_per_node, ElementsAre(1, 1));
}

TEST(SlurmJob, CountsGpusFromEverySpelling) {
  const Changes none = {{"SLURM_GPUS_ON_NODE", {}},
                        {"SLURM_GPUS_PER_NODE", {}},
                        {"SLURM_JOB_GPUS", {}},
                        {"CUDA_VISIBLE_DEVICES", {}}};
  const os::Environment bare = with(batch_with_gpus(), none);
  const std::vector<std::pair<Changes, std::optional<int>>> table = {
      {{}, std::nullopt},
      {{{"SLURM_GPUS_PER_NODE", "2"}}, 2},
      {{{"SLURM_GPUS_PER_NODE", "fake:2"}}, 2},
      {{{"SLURM_GPUS_PER_NODE", "a100:2,h100:1"}}, 3},
      {{{"SLURM_GPUS_PER_NODE", "a100"}}, 1},
      {{{"SLURM_GPUS_PER_NODE", "0"}}, 0},
      {{{"SLURM_GPUS_PER_NODE", "(null)"}}, std::nullopt},
      {{{"SLURM_GPUS_ON_NODE", "4"}}, 4},
      {{{"SLURM_GPUS_ON_NODE", "4"}, {"SLURM_GPUS_PER_NODE", "8"}}, 4},
      {{{"SLURM_JOB_GPUS", "0,1"}}, 2},
      {{{"SLURM_JOB_GPUS", "0-3,6"}}, 5},
      {{{"SLURM_GPUS_PER_TASK", "1"}}, 2},
      {{{"SLURM_GPUS_PER_TASK", "fake:2"}}, 4},
      {{{"SLURM_TRES_PER_TASK", "gres/gpu=1"}}, 2},
      {{{"SLURM_TRES_PER_TASK", "cpu=4,gres/gpu:a100=2"}}, 4},
      {{{"SLURM_TRES_PER_TASK", "cpu:4,gres/gpu:2"}}, 4},
      {{{"SLURM_TRES_PER_TASK", "cpu=4"}}, std::nullopt},
      {{{"SLURM_GPUS_PER_TASK", "1"}, {"SLURM_TASKS_PER_NODE", "2,1"}}, std::nullopt},
      {{{"SLURM_GPUS", "4"}}, std::nullopt},
  };
  for (const auto& [changes, gpus] : table) {
    SCOPED_TRACE(::testing::PrintToString(changes));
    EXPECT_EQ(find_slurm_job(with(bare, changes))->gpus_per_node, gpus);
  }
  EXPECT_THAT(find_slurm_job(with(batch_on_one_node(), {{"SLURM_GPUS", "4"}}))->gpus_per_node,
              Optional(4));
}

TEST(SlurmJob, ReadsCpusPerTaskOfEveryVersion) {
  const auto cpus = [](const Changes& changes) {
    return find_slurm_job(with(batch_on_one_node(), changes))->cpus_per_task;
  };

  EXPECT_THAT(cpus({{"SLURM_CPUS_PER_TASK", "4"}}), Optional(4));
  EXPECT_THAT(cpus({{"SLURM_TRES_PER_TASK", "cpu=4"}}), Optional(4));
  EXPECT_THAT(cpus({{"SLURM_TRES_PER_TASK", "gres/gpu=1"}}), std::nullopt);
}

TEST(SlurmJob, ReadsRestartsAndTheEnd) {
  const auto job = find_slurm_job(with(
      batch_on_one_node(), {{"SLURM_RESTART_COUNT", "1"}, {"SLURM_JOB_END_TIME", "1763190000"}}));

  EXPECT_THAT(job->restart_count, Optional(1));
  EXPECT_THAT(job->end_time, Optional(int64_t{1763190000}));
}

TEST(SlurmJob, IsComponentZeroOfAHeterogeneousJob) {
  const auto job = find_slurm_job(with(batch_on_one_node(),
                                       {{"SLURM_HET_SIZE", "2"},
                                        {"SLURM_JOB_ID_HET_GROUP_0", "1"},
                                        {"SLURM_JOB_ID_HET_GROUP_1", "2"},
                                        {"SLURM_JOB_NODELIST_HET_GROUP_0", "n1"},
                                        {"SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]"}}));

  EXPECT_THAT(job->nodes, ElementsAre("n1"));
}

TEST(SlurmJob, NamesTheVariableItCannotRead) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"SLURM_JOB_NODELIST", "n[1-"},
                                                        {"SLURM_TASKS_PER_NODE", "2(x"},
                                                        {"SLURM_JOB_CPUS_PER_NODE", "x"},
                                                        {"SLURM_NTASKS", "x"},
                                                        {"SLURM_NTASKS", "0"},
                                                        {"SLURM_NTASKS_PER_NODE", "-1"},
                                                        {"SLURM_JOB_NUM_NODES", "two"},
                                                        {"SLURM_CPUS_PER_TASK", "0"},
                                                        {"SLURM_TRES_PER_TASK", "cpu=x"},
                                                        {"SLURM_GPUS_ON_NODE", "fake"},
                                                        {"SLURM_GPUS_PER_NODE", "2x"},
                                                        {"SLURM_GPUS_PER_NODE", "2,"},
                                                        {"SLURM_JOB_GPUS", "0,x"},
                                                        {"SLURM_RESTART_COUNT", "1.5"},
                                                        {"SLURM_STEP_ID", "batch"},
                                                        {"SLURM_JOB_END_TIME", "soon"}}) {
    SCOPED_TRACE(name);
    const os::Environment environment =
        with(batch_on_two_nodes(), {{name, value}, {"SLURM_NPROCS", {}}});
    EXPECT_THAT([&] { find_slurm_job(environment); },
                ThrowsMessage<Error>(StartsWith("invalid " + name)));
  }
  EXPECT_THAT(
      [] {
        find_slurm_job(with(batch_on_one_node(), {{"SLURM_NTASKS", "x"}}));
      },
      ThrowsMessage<Error>(
          StrEq("invalid SLURM_NTASKS='x'\n"
                "  expected: a whole number of at least 1\n"
                "  found:    'x'  (environment)\n"
                "  try:      unset SLURM_NTASKS if it is left over; Slurm sets it if it is "
                "needed")));
}

TEST(SlurmJob, NamesBothVariablesThatContradict) {
  EXPECT_THAT(
      [] {
        find_slurm_job(with(batch_on_two_nodes(), {{"SLURM_JOB_NUM_NODES", "3"}}));
      },
      ThrowsMessage<Error>(
          StrEq("cannot determine the Slurm job and step: conflicting variables\n"
                "  SLURM_JOB_NUM_NODES: 3  (environment)\n"
                "  SLURM_JOB_NODELIST:  n[1-2]  (environment)\n"
                "  try:                 unset the one that is left over from another job "
                "or step")));
  for (const char* name : {"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"}) {
    EXPECT_THAT(
        [&] {
          find_slurm_job(with(batch_on_two_nodes(), {{name, "1(x3)"}}));
        },
        ThrowsMessage<Error>(AllOf(HasSubstr(name), HasSubstr("SLURM_JOB_NODELIST:"))));
  }
}

TEST(SlurmStep, IsAbsentOutsideOfSrun) {
  for (const os::Environment& environment : {os::Environment(),
                                             batch_on_one_node(),
                                             batch_on_two_nodes(),
                                             batch_with_gpus(),
                                             shell_of_salloc()}) {
    EXPECT_EQ(find_slurm_step(environment), std::nullopt);
  }
}

TEST(SlurmStep, IsNoneOfSlurmsOwnSteps) {
  // -5 is the batch script in 26.05; the large numbers are the same values without a sign.
  for (const char* id : {"-5", "-6", "4294967291", "4294967290", "4294967292"}) {
    EXPECT_EQ(
        find_slurm_step(with(batch_on_two_nodes(), {{"SLURM_STEP_ID", id}, {"SLURM_STEPID", id}})),
        std::nullopt)
        << id;
  }
}

TEST(SlurmStep, IsReadInTasks) {
  EXPECT_EQ(find_slurm_step(task_on_one_node()),
            (SlurmStep{.job_id = "1",
                       .id = "0",
                       .nodes = {"n1"},
                       .tasks_per_node = {1},
                       .tasks = 1,
                       .task = 0,
                       .local_task = 0,
                       .node = 0,
                       .launch_address = "10.12.0.1"}));
  EXPECT_EQ(find_slurm_step(task_on_second_node()),
            (SlurmStep{.job_id = "3",
                       .id = "0",
                       .nodes = {"n1", "n2"},
                       .tasks_per_node = {1, 1},
                       .tasks = 2,
                       .task = 1,
                       .local_task = 0,
                       .node = 1,
                       .launch_address = "10.12.0.1"}));
  SlurmStep last = {.job_id = "4",
                    .id = "0",
                    .nodes = {"n1", "n2"},
                    .tasks_per_node = {2, 2},
                    .tasks = 4,
                    .task = 3,
                    .local_task = 1,
                    .node = 1,
                    .launch_address = "10.12.0.1"};
  EXPECT_EQ(find_slurm_step(task_with_gpus()), last);
  last.job_id = "14";
  last.launch_address = "10.12.0.254";
  EXPECT_EQ(find_slurm_step(task_of_direct_srun()), last);
}

TEST(SlurmStep, TakesTheOlderNamesToo) {
  const auto step = find_slurm_step(with(task_on_second_node(),
                                         {{"SLURM_STEP_ID", {}},
                                          {"SLURM_STEPID", "7"},
                                          {"SLURM_JOB_ID", {}},
                                          {"SLURM_LAUNCH_NODE_IPADDR", {}},
                                          {"SLURM_SRUN_COMM_HOST", "10.12.0.9"}}));

  EXPECT_EQ(step->id, "7");
  EXPECT_EQ(step->job_id, "3");
  EXPECT_EQ(step->launch_address, "10.12.0.9");
}

TEST(SlurmStep, NeedsAllOfItsVariables) {
  for (const char* name : {"SLURM_JOB_ID",
                           "SLURM_STEP_NODELIST",
                           "SLURM_STEP_TASKS_PER_NODE",
                           "SLURM_STEP_NUM_TASKS",
                           "SLURM_PROCID",
                           "SLURM_LOCALID",
                           "SLURM_NODEID"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(
        [&] {
          find_slurm_step(with(task_with_gpus(), {{name, {}}, {"SLURM_JOBID", {}}}));
        },
        ThrowsMessage<Error>(StartsWith("incomplete variables of a Slurm step")));
  }
  EXPECT_THAT(
      [] {
        find_slurm_step(with(task_with_gpus(), {{"SLURM_PROCID", {}}}));
      },
      ThrowsMessage<Error>(
          StrEq("incomplete variables of a Slurm step\n"
                "  found:   SLURM_STEP_ID  (environment)\n"
                "  missing: SLURM_PROCID  (environment)\n"
                "  try:     start the program with srun, which sets both, or unset "
                "SLURM_STEP_ID")));
}

TEST(SlurmStep, NamesTheVariableItCannotRead) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"SLURM_STEP_NODELIST", "n[1-"},
                                                        {"SLURM_STEP_TASKS_PER_NODE", "2(x"},
                                                        {"SLURM_STEP_NUM_TASKS", "0"},
                                                        {"SLURM_STEP_NUM_NODES", "x"},
                                                        {"SLURM_PROCID", "-1"},
                                                        {"SLURM_LOCALID", "x"},
                                                        {"SLURM_NODEID", "1e3"},
                                                        {"SLURM_STEP_ID", "x"}}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(
        [&] {
          find_slurm_step(with(task_with_gpus(), {{name, value}}));
        },
        ThrowsMessage<Error>(StartsWith("invalid " + name)));
  }
}

TEST(SlurmStep, NamesBothVariablesThatContradict) {
  const std::vector<std::tuple<const char*, const char*, const char*>> table = {
      {"SLURM_PROCID", "4", "SLURM_STEP_NUM_TASKS"},
      {"SLURM_NODEID", "2", "SLURM_STEP_NODELIST"},
      {"SLURM_LOCALID", "2", "SLURM_STEP_TASKS_PER_NODE"},
      {"SLURM_STEP_NUM_NODES", "3", "SLURM_STEP_NODELIST"},
      {"SLURM_STEP_TASKS_PER_NODE", "2(x3)", "SLURM_STEP_NODELIST"},
      {"SLURM_STEP_TASKS_PER_NODE", "2,1", "SLURM_STEP_NUM_TASKS"},
      {"SLURMD_NODENAME", "n9", "SLURM_STEP_NODELIST"},
  };
  for (const auto& [name, value, other] : table) {
    SCOPED_TRACE(name);
    const os::Environment environment = with(task_with_gpus(), {{name, value}});
    EXPECT_THAT([&] { find_slurm_step(environment); },
                ThrowsMessage<Error>(
                    AllOf(StartsWith("cannot determine the Slurm job and step: conflicting"),
                          HasSubstr(name),
                          HasSubstr(other))));
  }
}

}  // namespace
}  // namespace lockstep::cluster
