// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/leader/agent_starter.h"

#include <gmock/gmock.h>

#include "common/os/host.h"

namespace lockstep::supervisor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

plan::LaunchPlan plan_on(const std::vector<std::string>& names) {
  plan::LaunchPlan plan;
  for (const std::string& name : names) {
    plan.nodes.push_back({.name = name, .workers = {}, .variables = {}, .gpus = {}});
  }
  return plan;
}

TEST(SrunCommand, StartsOneAgentOnEveryNodeOfThePlan) {
  const auto command = srun_command(plan_on({"n1", "n2", "n5"}), "/opt/lockstep");

  EXPECT_EQ(command.front(), "srun");
  EXPECT_THAT(command,
              IsSupersetOf({"--nodes=3",
                            "--ntasks=3",
                            "--ntasks-per-node=1",
                            "--nodelist=n1,n2,n5",
                            "--overlap",
                            "--no-kill",
                            "--kill-on-bad-exit=0",
                            "--mpi=none",
                            "--export=ALL",
                            "--cpu-bind=none"}));
  EXPECT_EQ(command.at(command.size() - 2), "/opt/lockstep");
  EXPECT_EQ(command.back(), "agent");
}

TEST(SrunEnvironment, LosesTheRequestsOfTheBatchScriptAndKeepsTheJob) {
  const os::Environment environment = srun_environment({{"SLURM_NTASKS", "64"},
                                                        {"SLURM_NTASKS_PER_NODE", "32"},
                                                        {"SLURM_CPU_BIND", "quiet"},
                                                        {"SLURM_EXPORT_ENV", "NONE"},
                                                        {"SLURM_GPUS_PER_TASK", "1"},
                                                        {"SLURM_JOB_ID", "4711"},
                                                        {"SLURM_CONF", "/etc/slurm.conf"},
                                                        {"PATH", "/bin"}});

  EXPECT_EQ(environment,
            (os::Environment{
                {"SLURM_JOB_ID", "4711"}, {"SLURM_CONF", "/etc/slurm.conf"}, {"PATH", "/bin"}}));
}

TEST(SshCommand, PromptsForNothingAndPutsNothingOnTheCommandLine) {
  const auto command = ssh_command(plan_on({"n7"}), "n7", "/opt/with space/lockstep");

  EXPECT_EQ(command.front(), "ssh");
  EXPECT_THAT(command, Contains("BatchMode=yes"));
  EXPECT_THAT(command, Not(Contains("-p")));
  EXPECT_THAT(command, Not(Contains("-i")));
  EXPECT_EQ(command.at(command.size() - 2), "n7");
  EXPECT_EQ(command.back(), "exec '/opt/with space/lockstep' agent --stdin");
}

TEST(SshCommand, TakesThePlansPortAndIdentity) {
  plan::LaunchPlan plan = plan_on({"n7"});
  plan.ssh_port.value = 2222;
  plan.ssh_identity.value = "/home/me/.ssh/id";

  const auto command = ssh_command(plan, "n7", "/opt/lockstep");

  EXPECT_THAT(command, IsSupersetOf({"-p", "2222", "-i", "/home/me/.ssh/id"}));
}

TEST(SshCommand, NeedsNoSshOnThisMachine) {
  for (const std::string& host :
       {std::string("localhost"), std::string("127.0.0.1"), os::host_name()}) {
    EXPECT_THAT(ssh_command(plan_on({host}), host, "/opt/lockstep"),
                ElementsAre("/opt/lockstep", "agent", "--stdin"));
  }
}

TEST(SshEnvironment, IsTheUsersWithoutWhatBelongsToThisMachineAndLogin) {
  const os::Environment environment = ssh_environment({{"PATH", "/opt/bin:/bin"},
                                                       {"LD_LIBRARY_PATH", "/opt/lib"},
                                                       {"NCCL_DEBUG", "INFO"},
                                                       {"HOME", "/home/me"},
                                                       {"TMPDIR", "/tmp/job"},
                                                       {"SSH_AUTH_SOCK", "/tmp/agent"},
                                                       {"XDG_RUNTIME_DIR", "/run/user/1"},
                                                       {"SLURM_JOB_ID", "4711"},
                                                       {"LOCKSTEP_MEETING", "secret"},
                                                       {"LOCKSTEP_SECRET", "secret"}});

  EXPECT_EQ(
      environment,
      (os::Environment{
          {"PATH", "/opt/bin:/bin"}, {"LD_LIBRARY_PATH", "/opt/lib"}, {"NCCL_DEBUG", "INFO"}}));
}

}  // namespace
}  // namespace lockstep::supervisor
