// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/launcher_task.h"

#include <gmock/gmock.h>

#include "common/contract/worker_env.h"
#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

os::Environment with(os::Environment base, const os::Environment& more) {
  for (const auto& [name, value] : more) {
    base.insert_or_assign(name, value);
  }
  return base;
}

os::Environment without(os::Environment base, const std::string& name) {
  base.erase(name);
  return base;
}

os::Environment torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"ROLE_NAME", "default"},
          {"MASTER_ADDR", "n1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_RESTART_COUNT", "0"}};
}

// As Open MPI 4.1.4 sets them.
os::Environment open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "3"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_COMM_WORLD_NODE_RANK", "1"},
          {"OMPI_UNIVERSE_SIZE", "4"},
          {"OMPI_MCA_ess_base_jobid", "2040135681"},
          {"OMPI_MCA_orte_hnp_uri", "2040135680.0;tcp://10.12.0.1:53725"},
          {"OMPI_MCA_orte_precondition_transports", "f0029baa05228ee7-6e7c77a77d41c4d5"},
          {"PMIX_NAMESPACE", "2040135681"},
          {"PMIX_RANK", "3"}};
}

os::Environment slurm_step() {
  return {{"SLURM_JOB_ID", "4"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "3"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_STEP_NUM_TASKS", "4"}};
}

TEST(LauncherTask, IsAbsentWithoutVariables) {
  EXPECT_EQ(find_launcher_task({}), std::nullopt);
  EXPECT_EQ(find_launcher_task(slurm_step()), std::nullopt);
  EXPECT_EQ(find_launcher_task({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), std::nullopt);
}

TEST(LauncherTask, IsReadFromTheVariablesOfTorchrun) {
  EXPECT_EQ(find_launcher_task(torchrun()),
            (LauncherTask{.launcher = "torchrun",
                          .run = "torchrun-none-29500-0",
                          .rank = 5,
                          .size = 8,
                          .local_rank = 1,
                          .local_size = 4,
                          .node = 1}));
}

TEST(LauncherTask, IsNotTorchrunsWhenAnythingIsMissing) {
  for (const char* name : {"RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "TORCHELASTIC_RUN_ID"}) {
    EXPECT_EQ(find_launcher_task(without(torchrun(), name)), std::nullopt) << name;
  }
}

TEST(LauncherTask, NamesTheAttemptOfTorchrunToo) {
  const auto run = [](const os::Environment& changes) {
    return find_launcher_task(with(torchrun(), changes))->run;
  };

  EXPECT_EQ(run({{"TORCHELASTIC_RUN_ID", "job1"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}),
            "torchrun-job1-29500-2");
  EXPECT_THAT(run({{"TORCHELASTIC_RUN_ID", "../a b/c"}}),
              MatchesRegex("torchrun-[0-9a-f]+-29500-0"));
  EXPECT_NE(run({{"TORCHELASTIC_RUN_ID", "a b"}}), run({{"TORCHELASTIC_RUN_ID", "a c"}}));
}

TEST(LauncherTask, IsReadFromTheVariablesOfOpenMpi) {
  // OMPI_COMM_WORLD_NODE_RANK is a rank on the node, not the number of a node.
  EXPECT_EQ(find_launcher_task(open_mpi()),
            (LauncherTask{.launcher = "Open MPI",
                          .run = "mpirun-f0029baa05228ee7-6e7c77a77d41c4d5",
                          .rank = 3,
                          .size = 4,
                          .local_rank = 1,
                          .local_size = 2,
                          .node = std::nullopt}));
}

TEST(LauncherTask, NamesOpenMpisRunByWhatThereIs) {
  os::Environment variables = without(open_mpi(), "OMPI_MCA_orte_precondition_transports");
  EXPECT_EQ(find_launcher_task(variables)->run, "mpirun-2040135681");
  variables.insert_or_assign("PMIX_NAMESPACE", "prterun-n1-4711@1");
  EXPECT_EQ(find_launcher_task(variables)->run, "mpirun-prterun-n1-4711@1");
  variables.erase("PMIX_NAMESPACE");
  EXPECT_EQ(find_launcher_task(variables)->run, "mpirun-2040135681");
  variables.erase("OMPI_MCA_ess_base_jobid");
  EXPECT_THAT(find_launcher_task(variables)->run, MatchesRegex("mpirun-[0-9a-f]+"));
  variables.erase("OMPI_MCA_orte_hnp_uri");
  EXPECT_EQ(find_launcher_task(variables)->run, "");
}

TEST(LauncherTask, IsOpenMpisInsideAStepOfSlurms) {
  // mpirun starts its daemons with srun, so its ranks on other nodes have the variables of a step.
  EXPECT_EQ(find_launcher_task(with(open_mpi(), slurm_step()))->launcher, "Open MPI");
}

TEST(LauncherTask, IsLeftToTheStepWhereSlurmItselfSpeaksPmi) {
  EXPECT_EQ(find_launcher_task(
                with(slurm_step(), {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.4.0"}})),
            std::nullopt);
  EXPECT_EQ(find_launcher_task(with(slurm_step(),
                                    {{"PMI_RANK", "3"},
                                     {"PMI_SIZE", "4"},
                                     {"PMI_LOCAL_RANK", "1"},
                                     {"PMI_LOCAL_SIZE", "2"}})),
            std::nullopt);
}

TEST(LauncherTask, IsReadFromPmiWithALocalRankFromAnotherVariable) {
  const os::Environment pmi = {{"PMI_RANK", "6"}, {"PMI_SIZE", "8"}};
  const LauncherTask task = {.launcher = "PMI",
                             .run = "",
                             .rank = 6,
                             .size = 8,
                             .local_rank = 2,
                             .local_size = 4,
                             .node = std::nullopt};
  EXPECT_EQ(find_launcher_task(pmi), std::nullopt);
  EXPECT_EQ(find_launcher_task(with(pmi, {{"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "4"}})),
            task);
  EXPECT_EQ(find_launcher_task(with(pmi, {{"PMI_LOCAL_RANK", "2"}, {"PMI_LOCAL_SIZE", "4"}})),
            task);
}

TEST(LauncherTask, IsPmisWhereMpiexecWasStartedBySrun) {
  const auto task = find_launcher_task(with(
      slurm_step(),
      {{"PMI_RANK", "6"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "4"}}));

  EXPECT_EQ(task->rank, 6);
  EXPECT_EQ(task->run, "mpiexec-4");
}

TEST(LauncherTask, IsWhatMvapichAndJsrunTell) {
  EXPECT_EQ(find_launcher_task({{"MV2_COMM_WORLD_RANK", "1"},
                                {"MV2_COMM_WORLD_SIZE", "2"},
                                {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
                                {"MV2_COMM_WORLD_LOCAL_SIZE", "1"},
                                {"SLURM_JOB_ID", "9"}}),
            (LauncherTask{.launcher = "MVAPICH",
                          .run = "mvapich-9",
                          .rank = 1,
                          .size = 2,
                          .local_rank = 0,
                          .local_size = 1,
                          .node = std::nullopt}));
  EXPECT_EQ(find_launcher_task({{"JSM_NAMESPACE_RANK", "3"},
                                {"JSM_NAMESPACE_SIZE", "12"},
                                {"JSM_NAMESPACE_LOCAL_RANK", "3"},
                                {"JSM_NAMESPACE_LOCAL_SIZE", "6"},
                                {"LSB_JOBID", "77"}}),
            (LauncherTask{.launcher = "jsrun",
                          .run = "jsrun-77",
                          .rank = 3,
                          .size = 12,
                          .local_rank = 3,
                          .local_size = 6,
                          .node = std::nullopt}));
}

TEST(LauncherTask, PrefersTorchrunToOpenMpi) {
  EXPECT_EQ(find_launcher_task(with(open_mpi(), torchrun()))->launcher, "torchrun");
}

TEST(LauncherTask, NamesWhatItCannotRead) {
  EXPECT_THAT(
      [] {
        find_launcher_task(with(open_mpi(), {{"OMPI_COMM_WORLD_SIZE", "x"}}));
      },
      ThrowsMessage<Error>(HasSubstr("invalid OMPI_COMM_WORLD_SIZE='x'")));
  EXPECT_THAT(
      [] {
        find_launcher_task(with(torchrun(), {{"LOCAL_RANK", "-1"}}));
      },
      ThrowsMessage<Error>(HasSubstr("invalid LOCAL_RANK='-1'")));
  EXPECT_THAT(
      [] {
        find_launcher_task(with(torchrun(), {{"MASTER_PORT", "http"}}));
      },
      ThrowsMessage<Error>(HasSubstr("invalid MASTER_PORT='http'")));
}

TEST(LauncherTask, NamesBothVariablesThatContradict) {
  EXPECT_THAT(
      [] {
        find_launcher_task(with(torchrun(), {{"RANK", "8"}}));
      },
      ThrowsMessage<Error>(
          StrEq("cannot determine the rank: conflicting launcher variables\n"
                "  RANK:       8  (environment)\n"
                "  WORLD_SIZE: 8  (environment)\n"
                "  try:        unset RANK if it is left over from another launcher")));
  EXPECT_THAT(
      [] {
        find_launcher_task(with(open_mpi(), {{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}));
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("OMPI_COMM_WORLD_LOCAL_RANK: 2"),
                                 HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE: 2"))));
}

TEST(InsideWorker, NeedsOurMarkAndARank) {
  EXPECT_FALSE(is_inside_worker({}));
  EXPECT_FALSE(is_inside_worker(torchrun()));
  EXPECT_FALSE(is_inside_worker({{"LOCKSTEP_RUN_ID", "a"}}));
  EXPECT_TRUE(is_inside_worker({{"LOCKSTEP_RUN_ID", ""}, {"RANK", "0"}}));
  EXPECT_TRUE(is_inside_worker(contract::to_environment({})));
}

contract::WorkerSpec fully_specified_worker() {
  contract::WorkerSpec task;
  task.master_port = 1234;
  task.interface = "ib0";
  task.run_id = "a";
  task.run_directory = "/runs/a";
  task.node = "n1";
  task.error_file = "/runs/a/error.json";
  task.horovod_addr = "10.0.0.1";
  task.horovod_port = 4321;
  task.tensorflow_cluster = {"10.0.0.1:1"};
  return task;
}

TEST(WithoutRankVariables, LeavesNothingOfWhatWeTellAWorker) {
  EXPECT_THAT(without_rank_variables(contract::to_environment(fully_specified_worker())),
              IsEmpty());
}

TEST(WithoutRankVariables, LeavesNothingOfWhatOthersTell) {
  EXPECT_THAT(without_rank_variables(torchrun()), IsEmpty());
  EXPECT_THAT(without_rank_variables(open_mpi()), IsEmpty());
  for (const char* name : {"TORCHELASTIC_ERROR_FILE",
                           "HOROVOD_RANK",
                           "HOROVOD_CROSS_SIZE",
                           "HOROVOD_GLOO_RENDEZVOUS_PORT",
                           "LOCAL_SIZE",
                           "CROSS_RANK",
                           "TF_CONFIG",
                           "OMPI_COMMAND",
                           "OMPI_MCA_ess",
                           "OMPI_MCA_pmix",
                           "PMIX_SERVER_URI41",
                           "PMIX_ID",
                           "PMI_FD",
                           "PMI_JOBID",
                           "MPI_LOCALRANKID",
                           "MV2_COMM_WORLD_RANK",
                           "JSM_NAMESPACE_RANK",
                           "PALS_RANKID",
                           "SLURM_STEP_ID",
                           "SLURM_STEPID",
                           "LOCKSTEP_FORK_OFFER",
                           "LOCKSTEP_TERMINAL_COLUMNS",
                           "LOCKSTEP_COMMAND_TIME"}) {
    EXPECT_THAT(without_rank_variables({{name, "1"}}), IsEmpty()) << name;
  }
}

TEST(WithoutRankVariables, KeepsWhatTheUserHasSet) {
  os::Environment settings;
  for (const char* name : {"PATH",
                           "NCCL_DEBUG",
                           "NCCL_SOCKET_IFNAME",
                           "GLOO_SOCKET_IFNAME",
                           "OMPI_MCA_btl_tcp_if_include",
                           "OMPI_MCA_orte_tmpdir_base",
                           "OMPI_MCA_pml",
                           "OMPI_ALLOW_RUN_AS_ROOT",
                           "PMIX_MCA_gds",
                           "HOROVOD_CYCLE_TIME",
                           "HOROVOD_FUSION_THRESHOLD",
                           "HOROVOD_GLOO_TIMEOUT_SECONDS",
                           "HOROVOD_GLOO_IFACE",
                           "HOROVOD_TIMELINE",
                           "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
                           "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                           "OMP_NUM_THREADS",
                           "CUDA_VISIBLE_DEVICES",
                           "SLURM_JOB_ID",
                           "SLURM_STEP_NODELIST",
                           "SLURM_PROCID",
                           "LOCKSTEP_DATA_DIR",
                           "LOCKSTEP_LOG_LEVEL",
                           "MV2_ENABLE_AFFINITY",
                           "GROUP_ID",
                           "MASTER_KEY",
                           "RANKS"}) {
    settings.emplace(name, "1");
  }

  EXPECT_EQ(without_rank_variables(settings), settings);
}

TEST(WithoutRankVariables, DistinguishesOurChoiceOfAnInterfaceFromThatOfTheUser) {
  EXPECT_THAT(without_rank_variables({{"LOCKSTEP_INTERFACE", "ib0"},
                                      {"GLOO_SOCKET_IFNAME", "ib0"},
                                      {"TP_SOCKET_IFNAME", "ib0"},
                                      {"HOROVOD_GLOO_IFACE", "ib0"},
                                      {"NCCL_SOCKET_IFNAME", "=ib0"}}),
              IsEmpty());
  const os::Environment users = {{"NCCL_SOCKET_IFNAME", "eth"}};
  EXPECT_EQ(without_rank_variables(with(users, {{"LOCKSTEP_INTERFACE", "ib0"}})), users);
}

}  // namespace
}  // namespace lockstep::cluster
