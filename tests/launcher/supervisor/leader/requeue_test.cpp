// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/leader/requeue.h"

#include <fstream>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::supervisor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

plan::RequeueRules rules() {
  plan::RequeueRules some;
  some.job = "17";
  return some;
}

contract::RequeueRecord account(int requeues, int without_progress) {
  contract::RequeueRecord record;
  record.job = "17";
  record.requeues = requeues;
  record.without_progress = without_progress;
  return record;
}

// A normal end of an allocation: stopped for the time limit, at a checkpoint.
TurnEnd good_turn() {
  TurnEnd end;
  end.code = 75;
  end.is_limit_near = true;
  end.has_progress = true;
  end.step = 400;
  return end;
}

TEST(JudgeRequeue, PutsBackWhatWasStoppedAtACheckpoint) {
  const RequeueAnswer answer = judge_requeue(rules(), account(0, 0), good_turn());

  EXPECT_TRUE(answer.is_again);
  EXPECT_EQ(answer.how, "time limit near: stopped at step 400");
  EXPECT_THAT(answer.why_not, IsEmpty());
}

TEST(JudgeRequeue, PutsBackWhatLeavesWith75BeforeItsTimeIsOver) {
  TurnEnd end = good_turn();
  end.is_limit_near = false;

  const RequeueAnswer answer = judge_requeue(rules(), account(0, 0), end);

  EXPECT_TRUE(answer.is_again);
  EXPECT_EQ(answer.how, "code 75 at step 400");
}

TEST(JudgeRequeue, PutsBackAProgramThatKnowsNothingOf75ButHasSaved) {
  TurnEnd end = good_turn();
  end.code = 143;
  end.step = 0;

  const RequeueAnswer answer = judge_requeue(rules(), account(0, 1), end);

  EXPECT_TRUE(answer.is_again);
  EXPECT_EQ(answer.how, "time limit near: stopped");
}

TEST(JudgeRequeue, DoesNotPutBackWhatIsCancelledDoneOrBroken) {
  TurnEnd cancelled = good_turn();
  cancelled.is_cancelled = true;
  TurnEnd done = good_turn();
  done.code = 0;
  TurnEnd broken = good_turn();
  broken.code = 1;
  broken.is_limit_near = false;

  for (const TurnEnd& end : {cancelled, done, broken}) {
    const RequeueAnswer answer = judge_requeue(rules(), account(0, 0), end);
    EXPECT_FALSE(answer.is_again);
    EXPECT_THAT(answer.why_not, IsEmpty());
  }
}

TEST(JudgeRequeue, SaysWhyWhenNothingWasSavedBeforeTheLimit) {
  TurnEnd end = good_turn();
  end.code = 143;
  end.has_progress = false;

  const RequeueAnswer answer = judge_requeue(rules(), account(0, 0), end);

  EXPECT_FALSE(answer.is_again);
  EXPECT_EQ(answer.how, "time limit near: stopped");
  EXPECT_THAT(answer.why_not,
              AllOf(HasSubstr("did not exit with code 75"), HasSubstr("--progress-file")));
}

TEST(JudgeRequeue, GivesUpAfterTwoTurnsWithoutProgress) {
  TurnEnd end = good_turn();
  end.has_progress = false;

  EXPECT_TRUE(judge_requeue(rules(), account(3, 0), end).is_again);
  const RequeueAnswer second = judge_requeue(rules(), account(4, 1), end);

  EXPECT_FALSE(second.is_again);
  EXPECT_THAT(second.why_not, HasSubstr("2 allocations in a row saved nothing"));
}

TEST(JudgeRequeue, AdvisesWithWhatACheckpointTakes) {
  TurnEnd end = good_turn();
  end.has_progress = false;
  end.checkpoint_seconds = 41.2;

  EXPECT_THAT(judge_requeue(rules(), account(1, 1), end).why_not,
              AllOf(HasSubstr("a checkpoint takes 42 s"), HasSubstr("--signal=B:USR1@SECONDS")));

  end.checkpoint_seconds.reset();
  plan::RequeueRules with_file = rules();
  with_file.progress_file = "/home/me/saved.pt";
  EXPECT_THAT(judge_requeue(with_file, account(1, 1), end).why_not,
              HasSubstr("/home/me/saved.pt has not changed"));
}

TEST(JudgeRequeue, KeepsToTheMaximum) {
  plan::RequeueRules twice = rules();
  twice.maximum.value = 2;

  EXPECT_TRUE(judge_requeue(twice, account(1, 0), good_turn()).is_again);
  const RequeueAnswer third = judge_requeue(twice, account(2, 0), good_turn());

  EXPECT_FALSE(third.is_again);
  EXPECT_THAT(third.why_not,
              AllOf(HasSubstr("--max-requeues 2"), HasSubstr("scontrol requeue 17")));
}

TEST(TimeLeft, IsReadInTheFormatOfSqueue) {
  EXPECT_EQ(find_time_left("0:31\n"), 31);
  EXPECT_EQ(find_time_left("59:05"), 3545);
  EXPECT_EQ(find_time_left("2:03:04"), 7384);
  EXPECT_EQ(find_time_left("1-02:03:04"), 93784);
  for (const char* text : {"", "UNLIMITED", "INVALID", "NOT_SET", "1-", "x:10", "-5:00"}) {
    EXPECT_EQ(find_time_left(text), std::nullopt) << text;
  }
}

class TurnOfAJob : public ::testing::Test {
 protected:
  TurnOfAJob() {
    plan.run_directory.value = directory.path().string();
    plan.grace_seconds.value = 30;
    plan.requeue = rules();
  }

  void save(long long step) const {
    const auto folder = directory.path() / "checkpoints" / ("step-" + std::to_string(step));
    os::make_directories(folder);
    std::ofstream(folder / "COMPLETE") << "x";
  }

  void log(int attempt) const {
    os::make_directories(contract::RunDirectory(directory.path()).log(attempt, 0).parent_path());
  }

  os::TemporaryDirectory directory{"requeue-test"};
  plan::LaunchPlan plan;
};

TEST_F(TurnOfAJob, CountsItsAttemptsFromTheFirstTurnOn) {
  log(0);
  log(4);
  EXPECT_EQ(first_attempt(plan), 0);

  plan.slurm_restarts = 1;
  EXPECT_EQ(first_attempt(plan), 5);
}

TEST_F(TurnOfAJob, KnowsThatItIsALaterOneWithoutLogs) {
  plan.slurm_restarts = 2;

  EXPECT_EQ(first_attempt(plan), 2);
}

TEST_F(TurnOfAJob, GivesWorkersTheTimeUntilTheLimit) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  plan.requeue->end_time = std::chrono::duration_cast<std::chrono::seconds>(now).count() + 100;
  Requeue turn(plan);

  const double grace = turn.begin_grace_at_limit();

  EXPECT_GE(grace, 90);
  EXPECT_LE(grace, 96);
  EXPECT_TRUE(turn.is_limit_near());
}

TEST_F(TurnOfAJob, DoesNotTakeTheLimitItselfForACancel) {
  const auto now = std::chrono::system_clock::now();
  plan.requeue->end_time =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count() + 100;
  plan.requeue->maximum.value = 1;
  contract::RequeueRecord full = account(1, 0);
  contract::write_requeue_record(contract::RunDirectory(directory.path()), full);
  save(10);

  Requeue at_limit(plan);
  save(20);
  at_limit.begin_grace_at_limit();
  at_limit.take_cancel(now + std::chrono::seconds(101));
  EXPECT_THAT(at_limit.end(75, true), HasSubstr("--max-requeues 1 is reached"));

  Requeue before_limit(plan);
  before_limit.begin_grace_at_limit();
  before_limit.take_cancel(now + std::chrono::seconds(50));
  EXPECT_THAT(before_limit.end(75, true), IsEmpty());
}

TEST_F(TurnOfAJob, KeepsAnAccountAlsoWhenItDoesNotGoOn) {
  save(10);
  Requeue turn(plan);
  turn.begin_grace_at_limit();

  const std::string text = turn.end(143, true);

  EXPECT_THAT(text, HasSubstr("job 17 is not requeued"));
  EXPECT_FALSE(turn.is_requeued());
  const auto record = contract::find_requeue_record(contract::RunDirectory(directory.path()), "17");
  EXPECT_EQ(record.requeues, 0);
  EXPECT_EQ(record.without_progress, 1);
  EXPECT_EQ(record.step, 10);
  EXPECT_FALSE(record.is_again);
  EXPECT_EQ(record.text, text);
}

TEST_F(TurnOfAJob, TakesAChangedFileForProgress) {
  plan.requeue->progress_file = (directory.path() / "saved").string();
  plan.requeue->maximum.value = 1;
  contract::write_requeue_record(contract::RunDirectory(directory.path()), account(1, 1));
  std::ofstream(plan.requeue->progress_file) << "1";

  Requeue turn(plan);
  std::ofstream(plan.requeue->progress_file) << "22";
  EXPECT_THAT(turn.end(75, false), Not(HasSubstr("saved nothing")));

  Requeue idle(plan);
  EXPECT_THAT(idle.end(75, false), HasSubstr("--max-requeues"));  // the one before made progress
}

}  // namespace
}  // namespace lockstep::supervisor
