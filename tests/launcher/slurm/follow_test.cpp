// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/follow.h"

#include <gmock/gmock.h>

#include "launcher/slurm/captured.h"
#include "launcher/slurm/time_limit.h"
#include "lockstep/error.h"

namespace lockstep::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

JobInfo job(JobState state, const std::string& reason = "") {
  JobInfo made = parse_jobs(testing::kRunningJob).at(0);
  made.id = made.raw_id = "12";
  made.state = state;
  made.reason = reason;
  made.limit_seconds = 3600;
  return made;
}

// Fake Slurm: returns a sequence of answers, then repeats the last one. The clock is fake as well.
class Followed : public ::testing::Test {
 protected:
  using Look = std::function<std::vector<JobInfo>()>;

  void slurm_does(const Look& look) { looks_.push_back(look); }
  void slurm_reports(const std::vector<JobInfo>& jobs) {
    looks_.push_back([jobs] { return jobs; });
  }
  void slurm_is_silent() {
    looks_.push_back([]() -> std::vector<JobInfo> {
      throw Error(ExitCode::Unavailable, "cannot reach Slurm: its controller is down");
    });
  }

  std::optional<int> follow() {
    return slurm::follow(
        "12",
        {.look = [this] { return looks_.at(std::min(looked_++, looks_.size() - 1))(); },
         .pause =
             [this](std::chrono::milliseconds time) {
               now_ += std::chrono::duration<double>(time).count();
               return ++pauses_ != leaves_at;
             },
         .now = [this] { return now_; },
         .show =
             [this](const JobProgress& progress) {
               if (lines.empty() || lines.back() != progress.headline) {
                 lines.push_back(progress.headline);
               }
             },
         .tell =
             [this](const std::string& text) {
               lines.push_back("! " + text);
             }});
  }

  std::vector<std::string> lines;
  int leaves_at = -1;

 private:
  std::vector<Look> looks_;
  size_t looked_ = 0;
  int pauses_ = 0;
  double now_ = 1000;
};

TEST_F(Followed, IsReportedFromWaitingToItsEnd) {
  JobInfo end = job(JobState::Failed);
  end.exit.code = 5;
  end.run_seconds = 80;
  slurm_reports({job(JobState::Pending, "Resources")});
  slurm_reports({job(JobState::Pending, "Resources")});
  slurm_reports({job(JobState::Running)});
  slurm_reports({job(JobState::Completing)});
  slurm_reports({end});

  EXPECT_EQ(follow(), 5);
  EXPECT_THAT(lines,
              ElementsAre("job 12 is pending: all suitable nodes are busy (Resources)",
                          "job 12 is running on n1",
                          "job 12 is completing on n1",
                          "! job 12 has failed: exit code 5, after 1 min 20 s"));
}

TEST_F(Followed, GetsAHintWhenItWouldWaitForEver) {
  slurm_reports({job(JobState::Pending, "JobHeldUser")});
  leaves_at = 2;

  EXPECT_EQ(follow(), std::nullopt);
  EXPECT_EQ(lines.front(),
            "job 12 is pending: it was held by its user (JobHeldUser); try: scontrol release 12");
}

TEST_F(Followed, IsReportedWhenItStartsAgain) {
  JobInfo again = job(JobState::Pending, "BeginTime");
  again.restarts = 1;
  JobInfo second = job(JobState::Running);
  second.restarts = 1;
  second.nodes = "n[1-2]";
  second.node_count = 2;
  slurm_reports({job(JobState::Running)});
  slurm_reports({again});
  slurm_reports({second});
  slurm_reports({job(JobState::Completed)});

  EXPECT_EQ(follow(), 0);
  EXPECT_THAT(
      lines,
      ElementsAre("job 12 is running on n1",
                  "job 12 is requeued (restart 1): its begin time has not been reached (BeginTime)",
                  "job 12 is running (restart 1) on 2 nodes, n[1-2]",
                  "! job 12 has completed, after 6.0 s"));
}

TEST_F(Followed, GoesOnWhenTheUserLeaves) {
  slurm_reports({job(JobState::Running)});
  leaves_at = 3;

  EXPECT_EQ(follow(), std::nullopt);
  EXPECT_EQ(lines.back(),
            "! job 12 continues; lockstep status --wait 12 follows it, lockstep cancel 12 ends it");
}

TEST_F(Followed, IsLeftWhenTheUserDoesNotWantToWaitForSlurmEither) {
  slurm_does([]() -> std::vector<JobInfo> { throw Error(ExitCode::Interrupted, "interrupted"); });
  EXPECT_EQ(follow(), std::nullopt);
}

TEST_F(Followed, SurvivesAControllerThatIsAwayForAWhile) {
  slurm_reports({job(JobState::Running)});
  slurm_is_silent();
  slurm_is_silent();
  slurm_reports({job(JobState::Completed)});

  EXPECT_EQ(follow(), 0);
  EXPECT_THAT(lines,
              ElementsAre("job 12 is running on n1",
                          "! cannot reach Slurm: its controller is down; retrying",
                          "! job 12 has completed, after 6.0 s"));
}

TEST_F(Followed, EndsWithAnErrorWhenSlurmDoesNotComeBack) {
  slurm_reports({job(JobState::Running)});
  slurm_is_silent();

  EXPECT_THAT([&] { follow(); }, ThrowsMessage<Error>(HasSubstr("cannot reach Slurm")));
}

TEST_F(Followed, MustBeKnownToSlurm) {
  slurm_reports({});
  EXPECT_THAT([&] { follow(); }, ThrowsMessage<Error>(HasSubstr("job 12 does not exist")));
}

TEST_F(Followed, MayBeForgottenBeforeItsEndIsSeen) {
  slurm_reports({job(JobState::Running)});
  slurm_reports({});
  EXPECT_THAT([&] { follow(); },
              ThrowsMessage<Error>(HasSubstr("the result of job 12 is unknown")));
}

TEST_F(Followed, MayBeAnArray) {
  std::vector<JobInfo> tasks = parse_jobs(testing::kArray);
  slurm_reports(tasks);
  for (JobInfo& task : tasks) {
    task.state = task.exit.code == 0 ? JobState::Completed : JobState::Failed;
  }
  slurm_reports(tasks);

  EXPECT_EQ(follow(), 3);
  EXPECT_THAT(lines,
              ElementsAre("array 6: 1 pending, 1 running, 1 failed",
                          "! array 6 has ended: 2 completed, 1 failed"));
}

TEST(ProgressOfAJob, HasItsTimesApartFromWhatMatters) {
  JobInfo waiting = job(JobState::Pending, "Priority");
  waiting.started = "2026-11-15T10:08:43";
  EXPECT_EQ(progress_of({&waiting, 1}).moment, "expected to start at 2026-11-15 10:08:43");

  JobInfo running = job(JobState::Running);
  EXPECT_EQ(progress_of({&running, 1}).moment, "6.0 s of 01:00:00");
  running.limit_seconds = kUnlimited;
  EXPECT_EQ(progress_of({&running, 1}).moment, "6.0 s");
}

TEST(EndOfAJob, IsOneSentence) {
  const auto sentence = [](JobState state, int signal = 0) {
    JobInfo ended = job(state);
    ended.exit.signal = signal;
    return end_sentence({&ended, 1});
  };
  EXPECT_EQ(sentence(JobState::Failed, 9),
            "job 12 has failed: its script was killed by SIGKILL, after 6.0 s");
  EXPECT_EQ(sentence(JobState::Failed, 53),
            "job 12 has failed: Slurm could not write the output file /home/hpc/slurm-4.out; does "
            "the directory exist?, after 6.0 s");
  EXPECT_EQ(sentence(JobState::Cancelled, 15), "job 12 was cancelled, after 6.0 s");
  EXPECT_EQ(sentence(JobState::TimedOut), "job 12 reached its time limit of 01:00:00, after 6.0 s");
  EXPECT_EQ(sentence(JobState::NodeFailed),
            "job 12 was ended by a node failure on n1, after 6.0 s");
  EXPECT_EQ(sentence(JobState::OutOfMemory),
            "job 12 ran out of memory: it used more than it requested, after 6.0 s");
  EXPECT_EQ(sentence(JobState::Preempted),
            "job 12 was preempted by a job with a higher priority, after 6.0 s");
}

TEST(PauseAfter, GrowsWithTheQuiet) {
  EXPECT_EQ(pause_after(0).count(), 300);
  EXPECT_EQ(pause_after(20).count(), 2000);
  EXPECT_EQ(pause_after(86400).count(), 15000);
}

}  // namespace
}  // namespace lockstep::slurm
