// SPDX-License-Identifier: Apache-2.0
// status, logs and cancel of Slurm jobs, with fake Slurm commands.
#include "launcher/cli/runs/jobs.h"

#include <csignal>
#include <gmock/gmock.h>

#include "launcher/slurm/captured.h"
#include "support/fake_runs.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class JobCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    launcher.environment["PATH"] = launcher.path("").string() + ":/usr/bin:/bin";
    launcher.write_script("sacct", "#!/bin/sh\nexit 1\n");
    fake_gone();
  }

  void fake_gone() {
    launcher.write_script(
        "scontrol",
        "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n");
  }

  // Installs a scontrol that reports the job, with the directory of this test.
  void fake_job(const std::string& line) {
    os::replace_file(launcher.path("job.txt"), replaced(line, "/home/hpc", here()));
    launcher.write_script("scontrol", "#!/bin/sh\ncat " + here() + "/job.txt\n");
  }

  std::string here() const {
    std::string path = launcher.path("").string();
    path.pop_back();
    return path;
  }

  // Replaces the directory of this test, which differs from run to run.
  std::string plain(const std::string& text) const { return replaced(text, here(), "HERE"); }

  Launcher launcher;
};

// A number can also be the name of a run.
TEST(JobWords, AreNumbersThatNoRunIsCalled) {
  const FakeRuns runs;
  runs.add("12");
  runs.add("train", FakeRuns::state("13"));

  EXPECT_TRUE(cli::means_job("4711", runs.here()));
  EXPECT_TRUE(cli::means_job("4711_3", runs.here()));
  EXPECT_FALSE(cli::means_job("12", runs.here()));
  EXPECT_FALSE(cli::means_job("13", runs.here()));
  EXPECT_FALSE(cli::means_job("train", runs.here()));
  EXPECT_FALSE(cli::means_job("", runs.here()));
}

TEST(RunOfAJob, IsTheNewestBelowItsDirectoryOrThisOne) {
  const FakeRuns there;
  const FakeRuns here;
  contract::RunState state = FakeRuns::state("x");
  state.slurm_job = "12";
  here.add("mine", state);
  slurm::JobInfo job;
  job.raw_id = "12";
  job.directory = there.here().string();
  EXPECT_EQ(cli::find_run_of(job, here.here())->name, "mine");

  there.add("older", state);
  state.started += 10;
  there.add("newer", state);
  EXPECT_EQ(cli::find_run_of(job, here.here())->name, "newer");
  job.raw_id = "13";
  EXPECT_FALSE(cli::find_run_of(job, here.here()));
}

TEST_F(JobCommands, ShowARunningJobAsAPage) {
  fake_job(kRunningJob);
  const Result result = launcher.run({"status", "4"});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  expect_golden(plain(result.output), "status_job.txt");
  expect_golden(plain(launcher.run({"status", "--json", "4"}).output), "status_job.json");
}

TEST_F(JobCommands, ShowWhyAJobWaits) {
  fake_job(kPendingJob);
  expect_golden(plain(launcher.run({"status", "18"}).output), "status_job_pending.txt");
}

TEST_F(JobCommands, ShowAnArrayAsATable) {
  fake_job(kArray);
  expect_golden(plain(launcher.run({"status", "6"}).output), "status_array.txt");
  EXPECT_THAT(launcher.run({"status", "--json", "6"}).output, HasSubstr("\"job\": \"6_2\""));
}

TEST_F(JobCommands, ShowTheRunOfTheJobToo) {
  fake_job(kRunningJob);
  contract::RunState state = FakeRuns::state("train-1");
  state.slurm_job = "4";
  const contract::RunDirectory run(launcher.path("runs/train"));
  os::make_directories(run.root());
  contract::write_state(run, state);

  EXPECT_THAT(plain(launcher.run({"status", "4"}).output),
              AllOf(HasSubstr("job        4\n"), HasSubstr("\nrun        train-1\n")));
  EXPECT_THAT(launcher.run({"status", "--json", "4"}).output, HasSubstr("\"run_id\": \"train-1\""));
}

TEST_F(JobCommands, ReportHowSlurmHasEndedARun) {
  fake_job(replaced(kRunningJob, "JobState=RUNNING", "JobState=TIMEOUT"));
  contract::RunState state = FakeRuns::state("train-1");  // not updated for years
  state.slurm_job = "4";
  const contract::RunDirectory run(launcher.path("runs/train"));
  os::make_directories(run.root());
  contract::write_state(run, state);

  const Result by_job = launcher.run({"report", "4"});
  EXPECT_EQ(by_job.status.code, 0) << by_job.errors;
  EXPECT_THAT(by_job.output,
              AllOf(HasSubstr("killed: the launcher ended without recording a result"),
                    HasSubstr("Slurm state: timed out"),
                    HasSubstr("--requeue")));
  fake_gone();
  const Result by_directory = launcher.run({"report", "runs/train"});
  EXPECT_EQ(by_directory.status.code, 0) << by_directory.errors;
  EXPECT_THAT(by_directory.output,
              HasSubstr("no state of job 4 from Slurm: cannot find the job or run '4'"));
}

TEST_F(JobCommands, RefuseAnUnknownJob) {
  for (const std::string command : {"status", "logs", "cancel", "report"}) {
    const Result result = launcher.run({command, "4711"});
    EXPECT_EQ(result.status.code, 64) << command;
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr("cannot find the job or run '4711'"), HasSubstr("squeue --me")));
  }
}

TEST_F(JobCommands, SayWhenThereIsNoSlurmHere) {
  launcher.environment["PATH"] = "/nowhere";
  for (const std::string command : {"status", "logs", "cancel", "report"}) {
    const Result result = launcher.run({command, "4711"});
    EXPECT_EQ(result.status.code, 69) << command;
    EXPECT_THAT(result.errors, HasSubstr("this machine has no Slurm client"));
  }
}

TEST_F(JobCommands, WaitForAJobAndLeaveAsItDid) {
  fake_job(replaced(replaced(kRunningJob, "=RUNNING", "=FAILED"), "ExitCode=0:0", "ExitCode=5:0"));
  const Result result = launcher.run({"status", "--wait", "4"});

  EXPECT_EQ(result.status.code, 5);
  EXPECT_EQ(result.errors, "lockstep: job 4 has failed: exit code 5, after 6.0 s\n");
  EXPECT_THAT(result.output, IsEmpty());
}

TEST_F(JobCommands, LeaveAJobRunningOnCtrlC) {
  fake_job(kRunningJob);
  launcher.start({"status", "--wait", "4"});
  EXPECT_TRUE(comes_true([&] { return !read_text(launcher.path("stderr")).empty(); }));
  launcher.process().signal(SIGINT);
  const Result result = launcher.wait();

  EXPECT_EQ(result.status.code, 130);
  EXPECT_EQ(result.errors,
            "lockstep: job 4 is running on n1, 6.0 s of 365-00:00:00\n"
            "lockstep: job 4 continues; lockstep status --wait 4 follows it, lockstep cancel 4 "
            "ends it\n");
}

TEST_F(JobCommands, TellProgramsOfACancelledJobToo) {
  fake_job(replaced(kRunningJob, "=RUNNING", "=CANCELLED"));
  const Result result = launcher.run({"status", "--wait", "--json", "4"});

  EXPECT_EQ(result.status.code, 130);
  EXPECT_THAT(result.output, HasSubstr("\"cancelled\""));
}

TEST_F(JobCommands, LeaveAllJobsOfASweepAtOnce) {
  fake_job(kRunningJob);
  launcher.write_script("sbatch", "#!/bin/sh\necho 4\n");
  launcher.start({"submit", "--mode", "runall", "--exec-command", "true", "--wait"});
  EXPECT_TRUE(comes_true(
      [&] { return read_text(launcher.path("stderr")).find("is running") != std::string::npos; }));
  launcher.process().signal(SIGINT);
  const Result result = launcher.wait();

  EXPECT_EQ(result.status.code, 130) << result.errors;
  const size_t first = result.errors.find("job 4 continues");
  ASSERT_NE(first, std::string::npos) << result.errors;
  EXPECT_EQ(result.errors.find("job 4 continues", first + 1), std::string::npos) << result.errors;
}

TEST_F(JobCommands, WaitForNothingButJobs) {
  const Result result = launcher.run({"status", "--wait", "train"});
  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("--wait requires a Slurm job"), HasSubstr("lockstep logs -f train")));
}

TEST_F(JobCommands, ShowWhatAJobHasWritten) {
  fake_job(kRunningJob);
  const Result early = launcher.run({"logs", "4"});
  EXPECT_EQ(early.status.code, 64);
  EXPECT_THAT(early.errors,
              AllOf(HasSubstr("job 4 has no logs yet"), HasSubstr("lockstep logs -f 4")));

  os::write_file(launcher.path("slurm-4.out"), "one\ntwo\nthree\n");
  EXPECT_EQ(launcher.run({"logs", "4"}).output, "one\ntwo\nthree\n");
  EXPECT_EQ(launcher.run({"logs", "-n", "2", "4"}).output, "two\nthree\n");
  const Result ranks = launcher.run({"logs", "--rank", "0", "4"});
  EXPECT_EQ(ranks.status.code, 64);
  EXPECT_THAT(ranks.errors, HasSubstr("--rank requires a lockstep run, and job 4 has none"));
}

TEST_F(JobCommands, FollowWhatAJobWritesUntilItEnds) {
  fake_job(kRunningJob);
  os::write_file(launcher.path("slurm-4.out"), "one\n");
  launcher.start({"logs", "-f", "4"});
  ASSERT_TRUE(launcher.prints("one\n"));
  std::ofstream(launcher.path("slurm-4.out"), std::ios::app) << "two\n";
  fake_job(replaced(kRunningJob, "=RUNNING", "=COMPLETED"));
  const Result result = launcher.wait();

  EXPECT_EQ(result.status.code, 0);
  EXPECT_EQ(result.output, "one\ntwo\n");
  EXPECT_EQ(result.errors, "lockstep: job 4 has completed, after 6.0 s\n");
}

TEST_F(JobCommands, RefuseTheLogsOfAWholeArray) {
  fake_job(kArray);
  const Result result = launcher.run({"logs", "6"});
  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors, HasSubstr("cannot show the logs of the whole array 6"));
}

TEST_F(JobCommands, AskSlurmToEndAJobWithoutARun) {
  fake_job(kRunningJob);
  const std::string ended = replaced(kRunningJob, "=RUNNING", "=CANCELLED");
  os::write_file(launcher.path("ended.txt"), ended);
  launcher.write_script("scancel",
                        "#!/bin/sh\necho \"$@\" >>" + here() + "/asked\ncp " + here() +
                            "/ended.txt " + here() + "/job.txt\n");
  const Result result = launcher.run({"cancel", "4"});

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_EQ(read_text(launcher.path("asked")), "4\n");
  EXPECT_EQ(result.errors,
            "lockstep: requested Slurm to cancel job 4\n"
            "lockstep: job 4 was cancelled, after 6.0 s\n");

  const Result again = launcher.run({"cancel", "4"});
  EXPECT_EQ(again.status.code, 0);
  EXPECT_EQ(again.errors, "lockstep: job 4 was cancelled, after 6.0 s; nothing to cancel\n");
}

TEST_F(JobCommands, CannotEndTheJobOfAnother) {
  fake_job(kRunningJob);
  launcher.write_script(
      "scancel",
      "#!/bin/sh\necho 'scancel: error: Kill job error on job id 4: Access/permission denied' "
      ">&2\nexit 210\n");
  const Result result = launcher.run({"cancel", "4"});

  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors, HasSubstr("cannot cancel job 4: permission denied"));
}

TEST_F(JobCommands, GiveNoGracePeriodWithoutARun) {
  fake_job(kRunningJob);
  const Result result = launcher.run({"cancel", "--grace", "5", "4"});
  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("--grace has no effect on job 4"),
                    HasSubstr("KillWait"),
                    Not(HasSubstr("requested Slurm"))));
}

}  // namespace
}  // namespace lockstep::testing
