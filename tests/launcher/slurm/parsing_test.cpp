// SPDX-License-Identifier: Apache-2.0
// Parsers for the output of Slurm commands.
#include <gmock/gmock.h>

#include "launcher/slurm/captured.h"
#include "launcher/slurm/client.h"
#include "launcher/slurm/facts.h"
#include "launcher/slurm/fields.h"
#include "launcher/slurm/job_info.h"
#include "launcher/slurm/time_limit.h"
#include "lockstep/error.h"

namespace lockstep::slurm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(TimeLimit, IsReadInEveryFormThatSlurmKnows) {
  EXPECT_EQ(parse_minutes("90"), 90);
  EXPECT_EQ(parse_minutes("2:00"), 2);
  EXPECT_EQ(parse_minutes("2:01"), 3);
  EXPECT_EQ(parse_minutes("01:30:00"), 90);
  EXPECT_EQ(parse_minutes("1-2"), 26 * 60);
  EXPECT_EQ(parse_minutes("1-02:03"), 26 * 60 + 3);
  EXPECT_EQ(parse_minutes("1-02:03:04"), 26 * 60 + 4);
  EXPECT_EQ(parse_minutes("365-00:00:00"), 365 * 1440);
  for (const std::string_view unlimited : {"UNLIMITED", "infinite", "Unlimited", "0"}) {
    EXPECT_EQ(parse_minutes(unlimited), kUnlimited) << unlimited;
  }
  EXPECT_EQ(find_seconds("00:00:06"), 6);
  EXPECT_EQ(find_seconds("00:00:00"), 0);
}

TEST(TimeLimit, OfAnotherFormIsRefusedWithItsSource) {
  for (const std::string text : {"",
                                 "abc",
                                 "1h",
                                 "-5",
                                 "1:2:3:4",
                                 "1-",
                                 "-1:00",
                                 "1-2-3",
                                 ":30",
                                 "30:",
                                 " 30",
                                 "1.5",
                                 "99999999999"}) {
    EXPECT_THAT([&] { parse_minutes(text, "slurm.yaml:3:7"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("invalid value '" + text + "' for the time"),
                                           HasSubstr("slurm.yaml:3:7"),
                                           HasSubstr("D-HH:MM:SS"))))
        << text;
  }
}

TEST(TimeLimit, IsWrittenAsSlurmReadsIt) {
  EXPECT_EQ(format_minutes(90), "01:30:00");
  EXPECT_EQ(format_minutes(26 * 60 + 3), "1-02:03:00");
  EXPECT_EQ(format_minutes(kUnlimited), "UNLIMITED");
}

TEST(Fields, MayHaveSpacesInTheirValues) {
  const Fields fields = parse_fields(
      "JobId=1 JobName=a run lr=0.1 UserId=hpc(2001) Comment=x  CPUs/Task=4 OS=Linux 6 #1 Foo= ");

  EXPECT_EQ(value_of(fields, "JobName"), "a run lr=0.1");
  EXPECT_EQ(value_of(fields, "UserId"), "hpc(2001)");
  EXPECT_EQ(count_of(fields, "CPUs/Task"), 4);
  EXPECT_EQ(value_of(fields, "OS"), "Linux 6 #1");
  EXPECT_EQ(value_of(fields, "Foo"), "");
  EXPECT_EQ(count_of(fields, "Missing", -1), -1);
}

TEST(Jobs, AreReadFromScontrol) {
  const std::vector<JobInfo> jobs = parse_jobs(testing::kRunningJob);

  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].id, "4");
  EXPECT_EQ(jobs[0].user, "hpc");
  EXPECT_EQ(jobs[0].state, JobState::Running);
  EXPECT_EQ(jobs[0].reason, "");
  EXPECT_EQ(jobs[0].nodes, "n1");
  EXPECT_EQ(jobs[0].node_count, 1);
  EXPECT_EQ(jobs[0].run_seconds, 6);
  EXPECT_EQ(jobs[0].limit_seconds, 365 * 86400);
  EXPECT_EQ(jobs[0].directory, "/home/hpc");
  EXPECT_EQ(jobs[0].output, "/home/hpc/slurm-4.out");
  EXPECT_EQ(find_estimate(jobs[0]), std::nullopt);
}

TEST(Jobs, ThatWaitHaveAReasonAndPerhapsAnEstimate) {
  JobInfo job = parse_jobs(testing::kPendingJob).at(0);

  EXPECT_EQ(job.state, JobState::Pending);
  EXPECT_EQ(job.reason, "PartitionTimeLimit");
  EXPECT_EQ(job.node_count, 9);
  EXPECT_EQ(job.nodes, "");
  EXPECT_EQ(find_estimate(job), std::nullopt);
  job.started = "2026-11-15T10:08:43";
  EXPECT_EQ(find_estimate(job), "2026-11-15 10:08:43");
  job.started = "5089-03-03T10:38:43";  // estimate of Slurm if the jobs before have no limit
  EXPECT_EQ(find_estimate(job), std::nullopt);
}

TEST(Jobs, OfAnArrayAreNamedAsSqueueNamesThem) {
  const std::vector<JobInfo> jobs = parse_jobs(testing::kArray);

  ASSERT_EQ(jobs.size(), 3U);
  EXPECT_EQ(jobs[0].id, "6_[3-5%2]");
  EXPECT_EQ(jobs[0].errors, "/home/hpc/slurm-6_*.out");
  EXPECT_EQ(jobs[1].id, "6_2");
  EXPECT_EQ(jobs[1].raw_id, "9");
  EXPECT_EQ(jobs[1].output, "/home/hpc/a-6_2.out");
  EXPECT_EQ(jobs[2].state, JobState::Failed);
  EXPECT_EQ(shell_code(jobs), 3);
}

TEST(Jobs, AreReadFromAccounting) {
  const std::vector<JobInfo> jobs = parse_accounting(
      "12|12|my|run|hpc|main|test|CANCELLED by 2001|0:15|2026-11-15T09:00:00|2026-11-15T09:00:01|"
      "2026-11-15T09:01:00|00:00:59|01:00:00|n[1-2]|2|None|/home/hpc\n"
      "13_1|14|x|hpc|main||OUT_OF_MEMORY|0:125|a|Unknown|Unknown|00:00:00|UNLIMITED|None "
      "assigned|1|None|/home/hpc\n");

  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].name, "my|run");
  EXPECT_EQ(jobs[0].state, JobState::Cancelled);
  EXPECT_EQ(jobs[0].exit.signal, 15);
  EXPECT_EQ(jobs[0].nodes, "n[1-2]");
  EXPECT_EQ(jobs[0].run_seconds, 59);
  EXPECT_EQ(jobs[0].limit_seconds, 3600);
  EXPECT_EQ(jobs[0].directory, "/home/hpc");
  EXPECT_EQ(jobs[1].id, "13_1");
  EXPECT_EQ(jobs[1].raw_id, "14");
  EXPECT_EQ(jobs[1].state, JobState::OutOfMemory);
  EXPECT_EQ(jobs[1].nodes, "");
  EXPECT_THAT(parse_accounting("Slurm accounting storage is disabled\n"), IsEmpty());
}

TEST(JobId, IsANumberPerhapsWithATask) {
  EXPECT_TRUE(is_job_id("123"));
  EXPECT_TRUE(is_job_id("123_4"));
  for (const std::string_view word : {"", "_", "12_", "_4", "12a", "run-12", "12_4_5", "1.0"}) {
    EXPECT_FALSE(is_job_id(word)) << word;
  }
}

TEST(JobId, IsFoundInWhatSbatchSays) {
  EXPECT_EQ(find_job_id("123\n"), "123");
  EXPECT_EQ(find_job_id("123;lab\n"), "123");
  EXPECT_EQ(find_job_id("Welcome to the cluster\nSubmitted batch job 77\n"), "77");
  EXPECT_EQ(find_job_id("Submitted batch job 77 on cluster lab\n"), "77");
  EXPECT_EQ(find_job_id("sbatch: hello\n"), std::nullopt);
}

TEST(Partitions, AreReadFromScontrol) {
  const std::vector<Partition> partitions = parse_partitions(testing::kPartitions);

  ASSERT_EQ(partitions.size(), 2U);
  EXPECT_TRUE(partitions[0].is_default);
  EXPECT_EQ(partitions[0].state, "UP");
  EXPECT_EQ(partitions[0].nodes, 2);
  EXPECT_EQ(partitions[0].max_nodes, std::nullopt);
  EXPECT_EQ(partitions[0].max_minutes, std::nullopt);
  EXPECT_EQ(partitions[0].default_minutes, std::nullopt);
  EXPECT_THAT(partitions[0].accounts, IsEmpty());
  EXPECT_EQ(partitions[1].max_nodes, 1);
  EXPECT_EQ(partitions[1].max_minutes, 2);
  EXPECT_EQ(partitions[1].default_minutes, 1);
  EXPECT_THAT(partitions[1].accounts, ElementsAre("bio", "physics"));
  EXPECT_THAT(partitions[1].qos, IsEmpty());
}

TEST(Nodes, AreReadFromScontrol) {
  const std::vector<ClusterNode> nodes = parse_nodes(testing::kNodes);

  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].name, "n1");
  EXPECT_EQ(nodes[0].cpus, 4);
  EXPECT_EQ(nodes[0].memory_mib, 4000);
  EXPECT_THAT(nodes[0].gpus, ElementsAre(GpuCount{"fake", 2}));
  EXPECT_THAT(nodes[0].features, IsEmpty());
  EXPECT_THAT(nodes[0].partitions, ElementsAre("main", "short"));
  EXPECT_THAT(nodes[1].gpus, ElementsAre(GpuCount{"a100", 4}));
  EXPECT_THAT(nodes[1].features, ElementsAre("a100", "nvlink"));
  EXPECT_EQ(nodes[1].state, "DOWN+DRAIN+NOT_RESPONDING");
}

TEST(Gpus, AreReadFromEveryFormOfGres) {
  EXPECT_THAT(parse_gpus("gpu:2"), ElementsAre(GpuCount{"", 2}));
  EXPECT_THAT(parse_gpus("gpu"), ElementsAre(GpuCount{"", 1}));
  EXPECT_THAT(parse_gpus("gpu:a100:4(S:0-1)"), ElementsAre(GpuCount{"a100", 4}));
  EXPECT_THAT(parse_gpus("nvme:1,gpu:a100:4(S:0,3),gpu:h100:no_consume:2,mps:400"),
              ElementsAre(GpuCount{"a100", 4}, GpuCount{"h100", 2}));
  EXPECT_THAT(parse_gpus(""), IsEmpty());
}

TEST(ClusterSettings, AreReadFromScontrol) {
  const Settings settings = parse_cluster_settings(testing::kConfig);

  EXPECT_EQ(settings.cluster, "lab");
  EXPECT_EQ(settings.version, "22.05.8");
  EXPECT_FALSE(settings.enforces_accounts);
  EXPECT_FALSE(settings.has_submit_plugin);
  EXPECT_FALSE(settings.has_accounting);

  const Settings strict = parse_cluster_settings(
      "AccountingStorageEnforce = associations,limits,qos,safe\n"
      "AccountingStorageType   = accounting_storage/slurmdbd\n"
      "JobSubmitPlugins        = lua\n");
  EXPECT_TRUE(strict.enforces_accounts);
  EXPECT_TRUE(strict.has_submit_plugin);
  EXPECT_TRUE(strict.has_accounting);
}

TEST(MpiTypes, AreThoseThatSrunLists) {
  EXPECT_THAT(parse_mpi_types("MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\n"
                              "specific pmix plugin versions available: pmix_v4,pmix_v5\n"),
              ElementsAre("pmix", "none", "cray_shasta", "pmi2", "pmix_v4", "pmix_v5"));
  EXPECT_THAT(parse_mpi_types("srun: error: no\n"), IsEmpty());
}

}  // namespace
}  // namespace lockstep::slurm
