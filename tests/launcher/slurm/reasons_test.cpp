// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/reasons.h"

#include <gmock/gmock.h>

#include "launcher/slurm/outages.h"
#include "launcher/slurm/refusals.h"
#include "support/golden.h"

namespace lockstep::slurm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Reasons, AreReportedInOneSentence) {
  std::string text;
  for (const std::string_view reason : {"Resources",
                                        "Priority",
                                        "Dependency",
                                        "DependencyNeverSatisfied",
                                        "BeginTime",
                                        "JobArrayTaskLimit",
                                        "JobHeldUser",
                                        "JobHeldAdmin",
                                        "job_requeued_in_held_state",
                                        "launch_failed_requeued_held",
                                        "launch failed requeued held",
                                        "PartitionNodeLimit",
                                        "PartitionTimeLimit",
                                        "PartitionConfig",
                                        "PartitionDown",
                                        "PartitionInactive",
                                        "AccountNotAllowed",
                                        "QOSNotAllowed",
                                        "ReqNodeNotAvail, UnavailableNodes:n2",
                                        "ReqNodeNotAvail,_UnavailableNodes:n2",
                                        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_"
                                        "jobs_in_higher_priority_partitions",
                                        "Reservation",
                                        "Licenses",
                                        "BadConstraints",
                                        "QOSMaxGRESPerUser",
                                        "QOSMaxJobsPerUserLimit",
                                        "QOSMaxSubmitJobPerUserLimit",
                                        "QOSGrpNodeLimit",
                                        "QOSMinGRES",
                                        "AssocGrpCPUMinutesLimit",
                                        "AssocGrpGRES",
                                        "AssocMaxJobsLimit",
                                        "AssocMaxWallDurationPerJobLimit",
                                        "SomethingNew"}) {
    const Explanation explanation = explain_reason(reason);
    text += describe_reason(reason) + "\n";
    text += explanation.advice.empty() ? "" : "    try: " + explanation.advice + "\n";
  }
  testing::expect_golden(text, "slurm_reasons.txt");
}

TEST(Reasons, AreHopelessWhenOnlyTheUserCanHelp) {
  for (const std::string_view reason :
       {"PartitionTimeLimit", "DependencyNeverSatisfied", "JobHeldUser", "BadConstraints"}) {
    EXPECT_TRUE(is_hopeless(reason)) << reason;
  }
  for (const std::string_view reason : {"Resources", "Priority", "AssocGrpGRES", "SomethingNew"}) {
    EXPECT_FALSE(is_hopeless(reason)) << reason;
  }
}

// Output of Slurm 22.05; the last ones require accounting.
TEST(Refusals, AreReportedWithTheTextOfSlurm) {
  std::string text;
  for (const std::string_view errors :
       {"sbatch: error: invalid partition specified: nope\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
        "allocation failure: Requested node configuration is not available\n",
        "sbatch: error: Invalid generic resource (gres) specification\n",
        "sbatch: error: Invalid --time specification\n",
        "allocation failure: Invalid feature specification\n",
        "sbatch: error: Batch job submission failed: Node count specification invalid\n",
        "sbatch: error: Memory specification can not be satisfied\n"
        "sbatch: error: Batch job submission failed: Requested node configuration is not "
        "available\n",
        "allocation failure: Requested reservation is invalid\n",
        "allocation failure: Invalid node name specified\n",
        "allocation failure: Invalid license specification\n",
        "allocation failure: Invalid job array specification\n",
        "sbatch: error: Invalid --mem specification\n",
        "sbatch: error: \"x\" is not a valid node count\n",
        "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or "
        "exceeds some limit)\n",
        "sbatch: error: Batch job submission failed: Invalid account or account/partition "
        "combination specified\n",
        "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job "
        "submit limit, user's size and/or time limits)\n",
        "sbatch: error: Batch job submission failed: Invalid qos specification\n",
        "sbatch: error: Batch job submission failed: Something that no Slurm has said yet\n"}) {
    text += std::string(refusal(errors).what()) + "\n";
  }
  testing::expect_golden(text, "slurm_refusals.txt");
  EXPECT_EQ(refusal("x").code(), ExitCode::Usage);
}

TEST(Outages, AreDistinguished) {
  const auto outage = find_outage(
      "sbatch",
      "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
      "failure)\n");
  ASSERT_TRUE(outage);
  EXPECT_EQ(outage->code(), ExitCode::Unavailable);
  EXPECT_EQ(outage->sentence(), "cannot reach Slurm: its controller (slurmctld) is down");
  EXPECT_THAT(outage->what(),
              HasSubstr("Slurm reports: Unable to contact slurm controller (connect failure)  "
                        "(sbatch)"));

  const auto munge = find_outage(
      "scontrol",
      "scontrol: error: If munged is up, restart with --num-threads=10\n"
      "scontrol: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\": No "
      "such file or directory (Did you start munged?)\n"
      "scontrol: error: slurm_send_node_msg: auth_g_create: REQUEST_BUILD_INFO has authentication "
      "error\n"
      "slurm_load_ctl_conf error: Protocol authentication error\n");
  ASSERT_TRUE(munge);
  EXPECT_EQ(munge->sentence(),
            "cannot reach Slurm: munge (user authentication) does not run on this machine");

  const auto credential = find_outage(
      "sbatch", "sbatch: error: Batch job submission failed: Invalid authentication credential\n");
  ASSERT_TRUE(credential);
  EXPECT_EQ(credential->sentence(),
            "cannot reach Slurm: its controller does not accept this machine's munge credential");

  EXPECT_FALSE(find_outage("sbatch", "allocation failure: Invalid feature specification\n"));
}

TEST(Outages, OfAMachineWithoutSlurmSayWhereToGo) {
  const Error error = missing_client("sbatch", "/bin");
  EXPECT_EQ(error.code(), ExitCode::Unavailable);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("sbatch not found: this machine has no Slurm client"),
                    HasSubstr("/bin  (PATH)"),
                    HasSubstr("login node"),
                    HasSubstr("--no-submit-job")));
}

TEST(Outages, OfASilentControllerSayWhetherAJobMayBeThere) {
  EXPECT_THAT(silent_client("sbatch", 30).what(),
              AllOf(HasSubstr("its controller does not answer"), HasSubstr("squeue --me")));
  EXPECT_THAT(silent_client("scontrol", 30).what(), Not(HasSubstr("squeue --me")));
}

}  // namespace
}  // namespace lockstep::slurm
