// SPDX-License-Identifier: Apache-2.0
// Jobs from submission to each possible end, with status, logs and cancel.
#include <filesystem>
#include <gmock/gmock.h>

#include "launcher/slurm/workers.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Copies the program that checks and submits. Returns its path on every node.
std::string copy_submit(const Lab& lab) {
  const auto path = lab.home() / "bin/slurm_submit";
  std::filesystem::copy_file(std::filesystem::path(LOCKSTEP_BIN_DIR) / "../tests/slurm_submit",
                             path,
                             std::filesystem::copy_options::skip_existing);
  return path.string();
}

class Jobs : public LaunchOnLab {
 protected:
  // Checks, tests and submits. Returns the output.
  Result try_submit(const std::string& script, Words demand = {}) {
    const std::string file = lab().write("job.sh", "#!/bin/bash\n" + script + "\n");
    demand.insert(demand.begin(), {copy_submit(lab()), file});
    return lab().on("ctl", demand);
  }

  // Submits a job. Returns its id.
  std::string submit(const std::string& script, const Words& demand = {}) {
    const Result result = try_submit(script, demand);
    EXPECT_EQ(result.status.code, 0) << result.errors;
    return result.output.substr(0, result.output.find('\n'));
  }

  Result on_job(const std::string& command, const std::string& id, const Words& options = {}) {
    Words words = {lockstep(), command, id};
    words.insert(words.end(), options.begin(), options.end());
    return lab().on("ctl", words);
  }

  Result wait_for(const std::string& id) { return on_job("status", id, {"--wait"}); }

  bool is_in_state(const std::string& id, const std::string& state) {
    return comes_true(seconds(90), [&] {
      return lab().shell("ctl", "scontrol -o show job " + id).output.find("JobState=" + state) !=
             std::string::npos;
    });
  }

  std::string queue() { return lab().on("ctl", {"squeue", "-h", "-o", "%i"}).output; }
};

TEST_F(Jobs, AreFollowedToTheirEndAndItsCode) {
  const std::string good = submit("sleep 1; echo done", {"nodes=2", "gpus=2", "time=5"});
  const std::string bad = submit("exit 5");
  const std::string killed = submit("kill -9 $$");

  const Result end = wait_for(good);
  EXPECT_EQ(end.status.code, 0) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("job " + good + " has completed"));
  EXPECT_EQ(wait_for(bad).status.code, 5);
  const Result kill = wait_for(killed);
  EXPECT_EQ(kill.status.code, 137);
  EXPECT_THAT(kill.errors, HasSubstr("its script was killed by SIGKILL"));
}

TEST_F(Jobs, EndWithTheCodeOfACancelledOne) {
  const std::string id = submit("sleep 100");
  Running waiting = lab().start("ctl", {lockstep(), "status", "--wait", id});
  ASSERT_TRUE(is_in_state(id, "RUNNING"));
  // `status --wait` polls; it must have seen the running job.
  ASSERT_TRUE(comes_true(seconds(90), [&waiting] {
    return waiting.errors().find("is running on n") != std::string::npos;
  }));

  const Result cancelled = on_job("cancel", id);
  EXPECT_EQ(cancelled.status.code, 0) << cancelled.errors;
  EXPECT_THAT(cancelled.errors,
              AllOf(HasSubstr("requested Slurm to cancel job " + id),
                    HasSubstr("job " + id + " was cancelled")));
  const Result end = waiting.wait();
  EXPECT_EQ(end.status.code, 130);
  EXPECT_THAT(end.errors,
              AllOf(HasSubstr("job " + id + " is running on n"),
                    HasSubstr("job " + id + " was cancelled")));
  EXPECT_THAT(on_job("cancel", id).errors, HasSubstr("nothing to cancel"));
}

TEST_F(Jobs, SayWhyTheyWait) {
  const std::string held = submit("true", {"--", "--hold"});
  const std::string later = submit("true", {"--", "--begin=now+1hour"});

  EXPECT_THAT(on_job("status", held).output,
              AllOf(HasSubstr("pending: it was held by its user (JobHeldUser)"),
                    HasSubstr("scontrol release " + held)));
  EXPECT_THAT(on_job("status", later).output,
              AllOf(HasSubstr("its begin time has not been reached (BeginTime)"),
                    HasSubstr("\nexpected   20")));
  EXPECT_THAT(on_job("status", later, {"--json"}).output,
              AllOf(HasSubstr("\"state\": \"pending\""), HasSubstr("\"reason\": \"BeginTime\"")));
  const Result logs = on_job("logs", held);
  EXPECT_EQ(logs.status.code, 64);
  EXPECT_THAT(logs.errors, HasSubstr("has no logs yet"));
  for (const std::string& id : {held, later}) {
    EXPECT_EQ(on_job("cancel", id).status.code, 0);
  }
}

TEST_F(Jobs, AreNotSubmittedWhenTheClusterCannotGiveThem) {
  const auto refused = [this](const Words& demand) {
    const Result result = try_submit("true", demand);
    EXPECT_EQ(result.status.code, 64) << result.output;
    return result.errors;
  };
  EXPECT_THAT(refused({"partition=mian"}),
              AllOf(HasSubstr("partition 'mian' does not exist"), HasSubstr("main, short")));
  EXPECT_THAT(refused({"nodes=9"}),
              AllOf(HasSubstr("too many nodes for partition 'main': 9"), HasSubstr("4 nodes")));
  EXPECT_THAT(refused({"gpus=3"}), HasSubstr("no node of partition 'main' has 3 GPUs"));
  EXPECT_THAT(refused({"partition=short", "time=5"}),
              AllOf(HasSubstr("time limit exceeds the maximum of partition 'short'"),
                    HasSubstr("00:02:00")));
  // Rules that only Slurm knows.
  EXPECT_THAT(refused({"--", "--reservation=none"}),
              HasSubstr("cannot submit the job: the reservation does not exist"));
  EXPECT_THAT(refused({"--", "--constraint=none"}),
              HasSubstr("cannot submit the job: no node has this feature"));
  EXPECT_EQ(queue(), "");
}

TEST_F(Jobs, CannotBeSubmittedWhereThereIsNoSlurm) {
  const Result result = lab().on("ctl", {"env", "PATH=/nowhere", copy_submit(lab()), "/dev/null"});
  EXPECT_EQ(result.status.code, 69);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("sbatch not found: this machine has no Slurm client"),
                    HasSubstr("--no-submit-job")));
}

// A job submitted from a job must not inherit the cores and counts of the outer job.
TEST_F(Jobs, SubmittedFromAJobHaveNothingOfIt) {
  lab().write("inner.sh",
              "#!/bin/bash\n#SBATCH -o inner.out\nenv | grep ^SLURM_NTASKS; echo end\n");
  const std::string outer = submit("srun -n1 " + copy_submit(lab()) + " inner.sh",
                                   {"--", "--ntasks=3", "-o", "outer.out"});

  EXPECT_EQ(wait_for(outer).status.code, 0) << read_text(lab().path("outer.out"));
  ASSERT_TRUE(comes_true(seconds(90), [&] {
    return read_text(lab().path("inner.out")).find("end") != std::string::npos;
  }));
  EXPECT_EQ(read_text(lab().path("inner.out")), "end\n");
}

TEST_F(Jobs, ShowTheirRunAndStopItGently) {
  const std::string worker = lab().write("worker.sh",
                                         "#!/bin/bash\n"
                                         "trap 'echo saved >saved-$RANK; exit 0' TERM\n"
                                         "echo rank $RANK is here\n"
                                         "for ((i = 0; i < 600; i++)); do sleep 0.1; done\n");
  const std::string id =
      submit(lockstep() + " run --nproc-per-node 2 " + worker, {"nodes=2", "--", "-o", "job.out"});
  ASSERT_TRUE(comes_true(seconds(90), [&] {
    return on_job("logs", id).output.find("rank 3 is here") != std::string::npos;
  })) << read_text(lab().path("job.out"));

  const Result status = on_job("status", id);
  EXPECT_THAT(status.output,
              AllOf(StartsWith("job        " + id + "\n"),
                    HasSubstr("state      running\n"),
                    HasSubstr("nodes      2: n["),
                    HasSubstr("\nrun        "),
                    HasSubstr("workers    4 on 2 nodes\n")));
  EXPECT_THAT(on_job("logs", id, {"--rank", "3"}).output, HasSubstr("[3]: rank 3 is here"));

  const Result cancelled = on_job("cancel", id);
  EXPECT_EQ(cancelled.status.code, 0) << cancelled.errors;
  EXPECT_THAT(cancelled.errors, AllOf(HasSubstr("stopping "), HasSubstr("has ended: cancelled")));
  EXPECT_TRUE(lab().has_file("saved-0"));
  EXPECT_TRUE(lab().has_file("saved-3"));
  EXPECT_THAT(cancelled.errors, HasSubstr("job " + id + " "));
}

TEST_F(Jobs, HaveTheirOutputFollowedFromTheQueueToTheirEnd) {
  const std::string id = submit("echo one; sleep 2; echo two; exit 3", {"--", "-o", "x-%j.out"});

  const Result logs = on_job("logs", id, {"-f"});

  EXPECT_EQ(logs.status.code, 0) << logs.errors;
  EXPECT_EQ(logs.output, "one\ntwo\n");
  EXPECT_THAT(logs.errors, HasSubstr("job " + id + " has failed: exit code 3"));
  EXPECT_EQ(on_job("logs", id).output, "one\ntwo\n");
}

TEST_F(Jobs, OfAnotherAreNotEnded) {
  const Result root = lab().on_as_root(
      "ctl", {"sbatch", "--parsable", "--chdir=/", "-o", "/dev/null", "--wrap", "sleep 50"});
  const std::string id = root.output.substr(0, root.output.find('\n'));

  const Result refused = on_job("cancel", id);
  EXPECT_EQ(refused.status.code, 64);
  EXPECT_THAT(refused.errors, HasSubstr("cannot cancel job " + id + ": permission denied"));
  EXPECT_THAT(on_job("status", id).output, HasSubstr("user       root\n"));
  lab().on_as_root("ctl", {"scancel", id});
}

TEST_F(Jobs, AreReportedAsRequeued) {
  const std::string id = submit("sleep 100");
  ASSERT_TRUE(is_in_state(id, "RUNNING"));
  Running waiting = lab().start("ctl", {lockstep(), "status", "--wait", id});
  ASSERT_TRUE(comes_true(seconds(90), [&] { return !waiting.errors().empty(); }));

  lab().on("ctl", {"scontrol", "requeue", id});
  EXPECT_TRUE(comes_true(seconds(90), [&] {
    return waiting.errors().find("is requeued (restart 1): its begin time") != std::string::npos;
  })) << waiting.errors();
  EXPECT_EQ(on_job("cancel", id).status.code, 0);
  EXPECT_EQ(waiting.wait().status.code, 130);
}

// Slurm detects a missing slurmd after 10 to 30 s; its task continues until slurmd is back.
TEST_F(Jobs, EndWithTheirNode) {
  const std::string id = submit("sleep 300", {"--", "--no-requeue", "--nodelist=n4"});
  ASSERT_TRUE(is_in_state(id, "RUNNING"));
  Running waiting = lab().start("ctl", {lockstep(), "status", "--wait", id});
  lab().on_as_root("n4", {"pkill", "-KILL", "-x", "slurmd"});

  const Result end = waiting.wait();

  EXPECT_EQ(end.status.code, 69) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("job " + id + " was ended by a node failure on n4"));
  lab().on_as_root("n4", {"slurmd"});
  EXPECT_TRUE(lab().is_quiet());
}

// Uses a separate lab, because it is unusable afterwards.
TEST(WithoutItsDaemons, SlurmIsReportedAsUnavailable) {
  const Lab lab({"--nodes", "1"});
  if (!lab.reason_against().empty()) {
    GTEST_SKIP() << lab.reason_against();
  }
  const std::string lockstep = copy_launcher(lab);
  const std::string submit = copy_submit(lab);
  lab.write("job.sh", "#!/bin/bash\n");
  lab.on_as_root("ctl", {"pkill", "-KILL", "-x", "munged"});
  lab.on_as_root("ctl", {"rm", "-f", "/run/munge/munge.socket.2"});
  const Result unknown = lab.on("ctl", {lockstep, "status", "1"});
  EXPECT_EQ(unknown.status.code, 69);
  EXPECT_THAT(unknown.errors, HasSubstr("munge (user authentication) does not run"));

  lab.on_as_root("ctl", {"pkill", "-KILL", "-x", "slurmctld"});
  Running submitting = lab.start("ctl", {submit, "job.sh"});
  Running asking = lab.start("ctl", {lockstep, "status", "1"});
  for (Running* running : {&submitting, &asking}) {
    const Result result = running->wait();
    EXPECT_EQ(result.status.code, 69);
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr("cannot reach Slurm: its controller (slurmctld) is down"),
                      HasSubstr("Unable to contact slurm controller")));
  }
}

}  // namespace
}  // namespace lockstep::testing
