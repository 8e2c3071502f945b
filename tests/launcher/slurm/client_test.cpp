// SPDX-License-Identifier: Apache-2.0
// Tests Client with fake Slurm commands.
#include "launcher/slurm/client.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "common/os/pipe.h"
#include "launcher/slurm/captured.h"
#include "launcher/slurm/submit_environment.h"
#include "lockstep/error.h"

namespace lockstep::slurm {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::ThrowsMessage;

class FakeSlurm : public ::testing::Test {
 protected:
  // Installs a command as a shell script.
  void fake_program(const std::string& name, const std::string& script) {
    const auto path = directory_.path() / name;
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  // Installs a command that prints this text.
  void fake_answer(const std::string& name, const std::string& text) {
    os::write_file(directory_.path() / (name + ".txt"), text);
    fake_program(name, "cat " + (directory_.path() / (name + ".txt")).string());
  }

  Client client(Client::Options options = {}) const { return {environment, options}; }

  // Arguments or input of the last command.
  std::string given(const std::string& name) const {
    return os::read_file(directory_.path() / name);
  }
  std::string here() const { return directory_.path().string(); }

 private:
  os::TemporaryDirectory directory_{"pretended-slurm"};

 protected:
  os::Environment environment = {{"PATH", directory_.path().string() + ":/usr/bin:/bin"},
                                 {"USER", "hpc"}};
};

TEST_F(FakeSlurm, TakesAScriptAndGivesItsNumber) {
  fake_program("sbatch",
               "cat >" + here() + "/stdin; echo \"$@\" >" + here() + "/words; pwd >" + here() +
                   "/where; echo '12;lab'");

  EXPECT_EQ(
      client().submit(
          {.script = "#!/bin/bash\nhostname\n", .arguments = {"--nodes=2"}, .directory = "/"}),
      "12");
  EXPECT_EQ(given("stdin"), "#!/bin/bash\nhostname\n");
  EXPECT_EQ(given("words"), "--parsable --nodes=2\n");
  EXPECT_EQ(given("where"), "/\n");

  EXPECT_EQ(client().submit({.script = "", .script_file = "/tmp/job.sh"}), "12");
  EXPECT_EQ(given("words"), "--parsable /tmp/job.sh\n");
}

TEST_F(FakeSlurm, TestsWithoutSubmitting) {
  fake_program(
      "sbatch",
      "echo \"$1\" >" + here() +
          "/words; echo 'sbatch: Job 12 to start at 2026-11-15T09:10:44 using 1 processors on "
          "nodes n2 in partition short' >&2");

  EXPECT_EQ(client().test({.script = "#!/bin/sh\n"}),
            "Job 12 to start at 2026-11-15T09:10:44 using 1 processors on nodes n2 in partition "
            "short");
  EXPECT_EQ(given("words"), "--test-only\n");

  fake_program("sbatch", "echo 'allocation failure: Invalid feature specification' >&2; exit 1");
  EXPECT_THAT([&] { client().test({.script = "#!/bin/sh\n"}); },
              ThrowsMessage<Error>(HasSubstr("cannot submit the job: no node has this feature")));
}

TEST_F(FakeSlurm, DoesNotHangWithItsController) {
  fake_program("sbatch", "sleep 100");

  EXPECT_THAT([&] { client({.patience = std::chrono::milliseconds(200)}).submit({.script = "x"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("its controller does not answer"),
                                         HasSubstr("waited: 0.2 s  (sbatch)"),
                                         HasSubstr("it is unknown whether it was submitted"))));
}

TEST_F(FakeSlurm, StopsWhenTheUserHasEnough) {
  fake_program("scontrol", "sleep 100");
  os::Pipe stop = os::make_pipe();
  os::write_all(stop.in.number(), "x");

  try {
    client({.stop_fd = stop.out.number()}).find_jobs("1");
    ADD_FAILURE() << "continued";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Interrupted);
  }
}

TEST_F(FakeSlurm, SaysWhenItIsNotThere) {
  environment["PATH"] = here();

  EXPECT_FALSE(client().is_installed());
  EXPECT_THAT([&] { client().need_installed(); },
              ThrowsMessage<Error>(HasSubstr("this machine has no Slurm client")));
  EXPECT_THAT([&] { client().submit({.script = "x"}); },
              ThrowsMessage<Error>(HasSubstr("sbatch not found")));
  EXPECT_THAT([&] { client().find_jobs("1"); },
              ThrowsMessage<Error>(HasSubstr("scontrol not found")));
}

TEST_F(FakeSlurm, SaysWhenItCannotBeUnderstood) {
  fake_program("sbatch", "echo hello");
  EXPECT_THAT([&] { client().submit({.script = "x"}); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("unexpected output of sbatch"), HasSubstr("stdout:    hello"))));
}

TEST_F(FakeSlurm, AsksAccountingForAJobThatIsGone) {
  fake_program("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  fake_program("sacct",
               "echo '12|12|x|hpc|main||COMPLETED|0:0|a|b|c|00:01:00|UNLIMITED|n1|1|None|/home'");
  const std::vector<JobInfo> jobs = client().find_jobs("12");
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].state, JobState::Completed);

  fake_program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  EXPECT_THAT(client().find_jobs("12"), IsEmpty());
}

TEST_F(FakeSlurm, DistinguishesAnUnreachableControllerFromAnUnknownJob) {
  fake_program(
      "scontrol",
      "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; "
      "exit 1");
  EXPECT_THAT([&] { client().find_jobs("12"); },
              ThrowsMessage<Error>(HasSubstr("its controller (slurmctld) is down")));
}

TEST_F(FakeSlurm, CancelsAndSignals) {
  fake_program("scancel", "echo \"$@\" >" + here() + "/words");
  client().cancel("12");
  EXPECT_EQ(given("words"), "12\n");
  client().signal("12", "USR1", true);
  EXPECT_EQ(given("words"), "--full --signal=USR1 12\n");

  fake_program("scancel",
               "echo 'scancel: error: Kill job error on job id 36: Access/permission denied' >&2; "
               "exit 210");
  EXPECT_THAT([&] { client().cancel("36"); },
              ThrowsMessage<Error>(HasSubstr("cannot cancel job 36: permission denied")));
  fake_program("scancel", "echo 'scancel: error: Invalid job id xyz' >&2; exit 1");
  EXPECT_THAT([&] { client().cancel("xyz"); },
              ThrowsMessage<Error>(HasSubstr("Slurm reports: Invalid job id xyz")));
}

TEST_F(FakeSlurm, ReportsWhatTheClusterHas) {
  os::write_file(here() + "/config", testing::kConfig + "AccountingStorageEnforce = none\n");
  os::write_file(here() + "/partition", testing::kPartitions);
  os::write_file(here() + "/node", testing::kNodes);
  fake_program("scontrol", "for what; do :; done; cat " + here() + "/$what");

  ClusterFacts facts = client().facts();
  EXPECT_EQ(facts.settings.cluster, "lab");
  EXPECT_EQ(facts.partitions.size(), 2U);
  EXPECT_EQ(facts.nodes.size(), 2U);
  EXPECT_FALSE(facts.accounts);

  os::write_file(here() + "/config", "AccountingStorageEnforce = associations\n");
  fake_program("sacctmgr", "echo 'bio|bio'; echo 'bio|physics'; echo 'bio|bio'");
  facts = client().facts();
  ASSERT_TRUE(facts.accounts);
  EXPECT_EQ(facts.accounts->preferred, "bio");
  EXPECT_THAT(facts.accounts->names, ElementsAre("bio", "physics"));
}

TEST_F(FakeSlurm, ListsTheKindsOfMpi) {
  fake_answer("srun", "MPI plugin types are...\n\tpmix\n\tnone\n");
  EXPECT_THAT(client().mpi_types(), ElementsAre("pmix", "none"));
}

TEST(SubmitEnvironment, LeavesBehindWhatBelongsToAnEnclosingJob) {
  const os::Environment left = submit_environment({{"PATH", "/bin"},
                                                   {"SLURM_CONF", "/etc/slurm.conf"},
                                                   {"SLURM_JOB_ID", "7"},
                                                   {"SLURM_CPU_BIND", "quiet,mask_cpu:0x1"},
                                                   {"SLURM_STEP_GPUS", "0"},
                                                   {"SLURMD_NODENAME", "n1"},
                                                   {"SBATCH_PARTITION", "short"},
                                                   {"SRUN_DEBUG", "3"},
                                                   {"PMI_RANK", "0"},
                                                   {"PMIX_NAMESPACE", "x"},
                                                   {"OMPI_COMM_WORLD_RANK", "0"},
                                                   {"OMPI_MCA_plm_slurm_args", "x"},
                                                   {"OMPI_MCA_btl", "tcp"},
                                                   {"RANK", "3"},
                                                   {"CUDA_VISIBLE_DEVICES", "0"},
                                                   {"ENVIRONMENT", "BATCH"},
                                                   {"MY_DATA", "/data"}});

  EXPECT_EQ(left,
            (os::Environment{{"PATH", "/bin"},
                             {"SLURM_CONF", "/etc/slurm.conf"},
                             {"OMPI_MCA_btl", "tcp"},
                             {"MY_DATA", "/data"}}));
}

TEST(SubmitEnvironment, KeepsTheUsersOwnDefaultsOutsideOfAnyJob) {
  const os::Environment own = {{"SBATCH_PARTITION", "short"},
                               {"SLURM_TIME_FORMAT", "relative"},
                               {"CUDA_VISIBLE_DEVICES", "0"},
                               {"OMPI_MCA_btl", "tcp"}};
  EXPECT_EQ(submit_environment(own), own);

  os::Environment waiting = own;
  waiting["SBATCH_WAIT"] = "1";
  EXPECT_EQ(submit_environment(waiting), own);
  EXPECT_EQ(query_environment(own).at("SLURM_TIME_FORMAT"), "standard");
}

TEST_F(FakeSlurm, IsGivenAJobWithoutTheVariablesOfAnother) {
  environment["SLURM_JOB_ID"] = "7";
  environment["SLURM_CPU_BIND"] = "quiet";
  environment["MINE"] = "1";
  fake_program("sbatch", "env >" + here() + "/env; echo 12");

  client().submit({.script = "x"});

  EXPECT_THAT(given("env"), AllOf(HasSubstr("MINE=1"), Not(HasSubstr("SLURM_"))));
}

}  // namespace
}  // namespace lockstep::slurm
