// SPDX-License-Identifier: Apache-2.0
// The meaning of --requeue, and where it is rejected.
#include "launcher/plan/requeue.h"

#include <csignal>
#include <gmock/gmock.h>

#include "common/contract/launch_plan.h"
#include "launcher/plan/scene.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

using contract::parse_plan;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HostEnvironment in_batch_script() {
  HostEnvironment here = in_slurm_job({"n1", "n2"});
  here.environment["SLURM_TASK_PID"] = "73";
  return here;
}

Request ask_to_requeue() {
  Request request = ask({"./train"});
  request.is_requeue = true;
  return request;
}

TEST(RequeueRules, AreThereOnlyWhenAsked) {
  EXPECT_EQ(make_plan(ask({"./train"}), in_batch_script()).requeue, std::nullopt);
}

TEST(RequeueRules, AreAbsentIfDisabled) {
  Request request = ask_to_requeue();
  request.is_no_requeue = true;
  request.max_requeues = by_flag("5");

  EXPECT_EQ(make_plan(request, in_batch_script()).requeue, std::nullopt);
  EXPECT_EQ(make_plan(request, quiet_machine()).requeue, std::nullopt);
}

TEST(RequeueRules, NameTheJobAndTheSignal) {
  HostEnvironment here = in_batch_script();
  here.job->end_time = 1706700000;
  const LaunchPlan plan = make_plan(ask_to_requeue(), here);

  ASSERT_TRUE(plan.requeue);
  EXPECT_EQ(plan.requeue->job, "4711");
  EXPECT_EQ(plan.requeue->signal.value, SIGUSR1);
  EXPECT_EQ(plan.requeue->maximum.value, 0);
  EXPECT_EQ(plan.requeue->end_time, 1706700000);
  EXPECT_EQ(plan.requeue->progress_file, "");
}

TEST(RequeueRules, TakeWhatIsAsked) {
  Request request = ask_to_requeue();
  request.requeue_signal = by_flag("SIGUSR2");
  request.max_requeues = by_flag("5");
  request.progress_file = by_flag("out/last.pt");
  const LaunchPlan plan = make_plan(request, in_batch_script());

  EXPECT_EQ(plan.requeue->signal.value, SIGUSR2);
  EXPECT_EQ(plan.requeue->maximum.value, 5);
  EXPECT_EQ(plan.requeue->progress_file, "/home/me/out/last.pt");
  EXPECT_EQ(parse_plan(to_json(plan)), plan);
  EXPECT_THAT(describe(plan), AllOf(HasSubstr("job 4711 at SIGUSR2"), HasSubstr("out/last.pt")));
}

TEST(RequeueRules, NameATaskOfAnArrayByBothNumbers) {
  HostEnvironment here = in_batch_script();
  here.environment["SLURM_ARRAY_JOB_ID"] = "4700";
  here.environment["SLURM_ARRAY_TASK_ID"] = "3";

  EXPECT_EQ(make_plan(ask_to_requeue(), here).requeue->job, "4700_3");
}

TEST(RequeueRules, KeepTheRunDirectoryOverAllTurns) {
  const LaunchPlan first = make_plan(ask_to_requeue(), in_batch_script());
  HostEnvironment later = in_batch_script();
  later.timestamp = "20240201-000000";
  later.short_id = "cafe";
  later.job->restart_count = 2;
  const LaunchPlan third = make_plan(ask_to_requeue(), later);

  EXPECT_EQ(first.run_directory.value, "/home/me/runs/train-4711");
  EXPECT_EQ(third.run_directory, first.run_directory);
  EXPECT_EQ(third.run_id, first.run_id);
  EXPECT_EQ(first.slurm_restarts, 0);
  EXPECT_EQ(third.slurm_restarts, 2);
}

TEST(RequeueRules, NeedABatchJob) {
  const auto refuses = [](const HostEnvironment& here, const std::string& found) {
    EXPECT_THAT([&here] { make_plan(ask_to_requeue(), here); },
                ThrowsMessage<Error>(AllOf(HasSubstr("cannot requeue the job"),
                                           HasSubstr("--requeue"),
                                           HasSubstr(found),
                                           HasSubstr("sbatch --requeue"))));
  };
  refuses(quiet_machine(), "no Slurm job");
  refuses(in_slurm_job({"n1"}), "job 4711, but not its batch script");
  refuses(in_slurm_step({"n1", "n2"}, 1, 0), "an srun task of job 4711");
  HostEnvironment interactive = in_batch_script();
  interactive.environment["SLURM_STEP_ID"] = "4294967290";
  refuses(interactive, "job 4711, but not its batch script");
}

TEST(RequeueRules, RefuseOtherSignalsAndDetailsWithoutTheMainThing) {
  Request wrong = ask_to_requeue();
  wrong.requeue_signal = by_flag("TERM");
  EXPECT_THAT([&wrong] { make_plan(wrong, in_batch_script()); },
              ThrowsMessage<Error>(HasSubstr("invalid value 'TERM' for --requeue-signal")));

  Request none = ask_to_requeue();
  none.max_requeues = by_flag("0");
  EXPECT_THAT([&none] { make_plan(none, in_batch_script()); },
              ThrowsMessage<Error>(HasSubstr("invalid value '0' for --max-requeues")));

  Request detail = ask({"./train"});
  detail.progress_file = by_flag("saved");
  EXPECT_THAT([&detail] { make_plan(detail, in_batch_script()); },
              ThrowsMessage<Error>(HasSubstr("cannot use --progress-file without --requeue")));
}

}  // namespace
}  // namespace lockstep::plan
