// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/leader/run_reporter.h"

#include <csignal>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::supervisor {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RunReporter, WritesAtTheStartAtAChangeAndFromTimeToTime) {
  const os::TemporaryDirectory directory;
  const contract::RunDirectory run(directory.path());
  plan::LaunchPlan plan;
  plan.run_id = "train-1";
  plan.run_directory.value = directory.path().string();
  plan.grace_seconds.value = 7;
  const RunReporter::Time start = std::chrono::steady_clock::now();
  Leader leader(plan, start);
  WriteFaults faults([](const std::string& text) { FAIL() << text; });
  RunReporter reporter(plan, {{"SLURM_JOB_ID", "815"}}, faults);

  reporter.report(leader, start);
  const contract::RunState first = contract::find_state(run).value();
  EXPECT_EQ(first.run_id, "train-1");
  EXPECT_EQ(first.phase, contract::RunPhase::Starting);
  EXPECT_EQ(first.launcher, os::own_identity());
  EXPECT_EQ(first.grace_seconds, 7);
  EXPECT_EQ(first.slurm_job, "815");
  EXPECT_EQ(first.ended, std::nullopt);

  os::remove_tree(run.state());
  reporter.report(leader, start + milliseconds(4999));
  EXPECT_EQ(contract::find_state(run), std::nullopt);
  reporter.report(leader, start + milliseconds(5000));
  EXPECT_TRUE(contract::find_state(run).has_value());

  leader.stop(SIGTERM, "SIGTERM came", start);
  reporter.report(leader, start + milliseconds(5001));
  const contract::RunState last = contract::find_state(run).value();
  EXPECT_EQ(last.phase, contract::RunPhase::Cancelled);
  EXPECT_EQ(last.exit_code, 143);
  EXPECT_TRUE(last.ended.has_value());
}

TEST(RunReporter, StopsNoRunWhereItCannotWrite) {
  plan::LaunchPlan plan;
  plan.run_directory.value = "/proc/no/such/place";
  const RunReporter::Time start = std::chrono::steady_clock::now();
  const Leader leader(plan, start);
  std::vector<std::string> said;
  WriteFaults faults([&said](const std::string& text) { said.push_back(text); });
  RunReporter reporter(plan, {}, faults);

  EXPECT_NO_THROW(reporter.report(leader, start));
  reporter.report_requeued();
  EXPECT_THAT(said, ElementsAre(HasSubstr("the run continues")));
}

}  // namespace
}  // namespace lockstep::supervisor
