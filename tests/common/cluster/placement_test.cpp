// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/placement.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

os::Environment open_mpi(const char* rank, const char* local_rank) {
  return {{"OMPI_COMM_WORLD_RANK", rank},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", local_rank},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
}

TEST(Placement, IsASingleWorkerWithoutALauncher) {
  const Placement mine = read_placement({{"HOME", "/"}});

  EXPECT_EQ(mine.launched_by, LaunchedBy::Alone);
  EXPECT_EQ(mine.worker, contract::WorkerSpec{});
}

TEST(Placement, IsReadFromTheVariablesOfTheLauncher) {
  contract::WorkerSpec spec;
  spec.rank = spec.local_rank = 1;
  spec.world_size = spec.local_world_size = 2;
  spec.master_port = 1234;

  EXPECT_EQ(read_placement(contract::to_environment(spec)),
            (Placement{spec, LaunchedBy::Launcher, false}));
}

TEST(Placement, IsReadFromTheVariablesOfOpenMpi) {
  const Placement mine = read_placement(open_mpi("3", "1"));

  EXPECT_EQ(mine.launched_by, LaunchedBy::OpenMpi);
  EXPECT_EQ(mine.worker.rank, 3);
  EXPECT_EQ(mine.worker.world_size, 4);
  EXPECT_EQ(mine.worker.local_rank, 1);
  EXPECT_EQ(mine.worker.local_world_size, 2);
  EXPECT_EQ(mine.worker.nodes, 2);
  EXPECT_EQ(mine.worker.node_rank, 1);
}

TEST(Placement, PrefersTheLauncherToOpenMpi) {
  os::Environment both = open_mpi("3", "1");
  both.merge(contract::to_environment({}));

  EXPECT_EQ(read_placement(both).launched_by, LaunchedBy::Launcher);
}

TEST(Placement, DoesNotTakeOurOwnVariablesForThoseOfMpirun) {
  contract::WorkerSpec spec;
  spec.rank = spec.local_rank = 1;
  spec.world_size = spec.local_world_size = 2;
  os::Environment variables = contract::to_environment(spec);
  EXPECT_FALSE(read_placement(variables).is_under_mpi);

  // A worker unsets these to run a program alone.
  variables.erase("RANK");
  variables.erase("WORLD_SIZE");

  EXPECT_EQ(read_placement(variables).launched_by, LaunchedBy::Alone);
  EXPECT_FALSE(read_placement(variables).is_under_mpi);
}

TEST(Placement, KnowsMpirunByWhatOnlyItCanSet) {
  for (const char* name : {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}) {
    SCOPED_TRACE(name);
    os::Environment beneath_us = contract::to_environment({});
    beneath_us.emplace(name, "1706688513");
    EXPECT_EQ(read_placement(beneath_us).launched_by, LaunchedBy::Launcher);
    EXPECT_TRUE(read_placement(beneath_us).is_under_mpi);

    os::Environment alone = open_mpi("3", "1");
    alone.emplace(name, "1706688513");
    alone.emplace("LOCKSTEP_RUN_ID", "outer");
    EXPECT_EQ(read_placement(alone).launched_by, LaunchedBy::OpenMpi);
    EXPECT_TRUE(read_placement(alone).is_under_mpi);
  }
}

TEST(Placement, KeepsTheRunDirectoryUnderOpenMpi) {
  os::Environment variables = open_mpi("0", "0");
  variables.emplace("LOCKSTEP_RUN_DIR", "/runs/a");

  EXPECT_EQ(read_placement(variables).worker.run_directory, "/runs/a");
}

os::Environment slurm_step() {
  return {{"SLURM_JOB_ID", "1234"},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_STEP_NODELIST", "n[1-2]"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
          {"SLURM_PROCID", "2"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "1"}};
}

TEST(Placement, IsThatOfATaskOfPlainSrun) {
  const Placement mine = read_placement(slurm_step());

  EXPECT_EQ(mine.launched_by, LaunchedBy::Slurm);
  EXPECT_FALSE(mine.is_under_mpi);
  EXPECT_EQ(mine.worker.rank, 2);
  EXPECT_EQ(mine.worker.world_size, 3);
  EXPECT_EQ(mine.worker.local_rank, 0);
  EXPECT_EQ(mine.worker.local_world_size, 1);
  EXPECT_EQ(mine.worker.node_rank, 1);
  EXPECT_EQ(mine.worker.nodes, 2);
  EXPECT_EQ(mine.worker.node, "n2");
  EXPECT_EQ(mine.worker.master_addr, "n1");
  EXPECT_EQ(mine.worker.master_port, 15000 + (16 * 1234 + 2) % 16000);
}

TEST(Placement, MeetsWhereTheUserOfSrunSays) {
  os::Environment variables = slurm_step();
  variables.emplace("MASTER_ADDR", "n1-fab");
  variables.emplace("MASTER_PORT", "4711");

  EXPECT_EQ(read_placement(variables).worker.master_addr, "n1-fab");
  EXPECT_EQ(read_placement(variables).worker.master_port, 4711);
}

TEST(Placement, MeetsOnTheLoopbackWhereAStepHasOneNode) {
  os::Environment variables = slurm_step();
  variables["SLURM_STEP_NODELIST"] = "n2";
  variables["SLURM_STEP_NUM_NODES"] = "1";
  variables["SLURM_STEP_TASKS_PER_NODE"] = "3";
  variables["SLURM_LOCALID"] = "2";
  variables["SLURM_NODEID"] = "0";

  EXPECT_EQ(read_placement(variables).worker.master_addr, "127.0.0.1");
  EXPECT_EQ(read_placement(variables).worker.local_world_size, 3);
}

TEST(Placement, IsUnderMpiWhereSrunSpeaksPmix) {
  os::Environment variables = slurm_step();
  variables.emplace("PMIX_NAMESPACE", "slurm.pmix.1234.2");

  EXPECT_EQ(read_placement(variables).launched_by, LaunchedBy::Slurm);
  EXPECT_TRUE(read_placement(variables).is_under_mpi);
}

TEST(Placement, IsASingleWorkerInABatchScriptAndInAShellOfSrun) {
  const os::Environment batch = {{"SLURM_JOB_ID", "1234"},
                                 {"SLURM_JOB_NODELIST", "n[1-2]"},
                                 {"SLURM_NTASKS", "4"},
                                 {"SLURM_PROCID", "0"},
                                 {"SLURM_LOCALID", "0"},
                                 {"SLURM_NODEID", "0"}};
  os::Environment shell = slurm_step();
  shell["SLURM_STEP_NODELIST"] = "n1";
  shell["SLURM_STEP_NUM_NODES"] = shell["SLURM_STEP_NUM_TASKS"] = "1";
  shell["SLURM_STEP_TASKS_PER_NODE"] = "1";
  shell["SLURM_PROCID"] = shell["SLURM_NODEID"] = "0";

  EXPECT_EQ(read_placement(batch).launched_by, LaunchedBy::Alone);
  EXPECT_EQ(read_placement(shell).launched_by, LaunchedBy::Alone);
}

TEST(Placement, PrefersMpirunToTfConfigAndThatToSlurm) {
  constexpr const char* kConfig = R"({"cluster": {"worker": ["a:1", "b:1"]},
                                      "task": {"type": "worker", "index": 1}})";
  os::Environment variables = slurm_step();
  variables.emplace("TF_CONFIG", kConfig);
  EXPECT_EQ(read_placement(variables).launched_by, LaunchedBy::TfConfig);
  EXPECT_EQ(read_placement(variables).worker.rank, 1);

  variables.merge(open_mpi("3", "1"));

  EXPECT_EQ(read_placement(variables).launched_by, LaunchedBy::OpenMpi);
}

TEST(Placement, IsNotTheWorkersOwnInAProgramThatAWorkerStarts) {
  os::Environment variables = slurm_step();
  variables.emplace("TF_CONFIG", "{}");
  variables.emplace("LOCKSTEP_RUN_ID", "outer");

  EXPECT_EQ(read_placement(variables).launched_by, LaunchedBy::Alone);
}

TEST(Placement, NamesTheVariableOfSlurmThatIsMissingOrWrong) {
  os::Environment incomplete = slurm_step();
  incomplete.erase("SLURM_LOCALID");
  os::Environment wrong = slurm_step();
  wrong["SLURM_PROCID"] = "3";

  EXPECT_THAT([&] { read_placement(incomplete); },
              ThrowsMessage<Error>(HasSubstr("SLURM_LOCALID")));
  EXPECT_THAT([&] { read_placement(wrong); }, ThrowsMessage<Error>(HasSubstr("SLURM_PROCID")));
}

TEST(Placement, NamesTheVariableOfOpenMpiThatIsMissingOrWrong) {
  os::Environment incomplete = open_mpi("0", "0");
  incomplete.erase("OMPI_COMM_WORLD_LOCAL_SIZE");

  EXPECT_THAT([&] { read_placement(incomplete); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cannot determine the rank of this worker"),
                                         HasSubstr("missing: OMPI_COMM_WORLD_LOCAL_SIZE"))));
  EXPECT_THAT([] { read_placement(open_mpi("x", "0")); },
              ThrowsMessage<Error>(HasSubstr("invalid OMPI_COMM_WORLD_RANK='x'")));
}

}  // namespace
}  // namespace lockstep::cluster
