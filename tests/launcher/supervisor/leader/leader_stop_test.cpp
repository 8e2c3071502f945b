// SPDX-License-Identifier: Apache-2.0
//
// Signals, limits, and tasks that replace themselves by their programs.
#include "launcher/supervisor/leader_of_agents.h"

namespace lockstep::supervisor {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Phase = Leader::Phase;

TEST_F(LeaderOfAgents, StopsBeforeAnyWorkerHasStarted) {
  join(1, 0);

  signal(SIGTERM);

  expect_end(143);
  EXPECT_EQ(said.back(), "SIG came; no worker had been started");
  EXPECT_TRUE(leader().is_cancelled());
}

TEST_F(LeaderOfAgents, StopsWhileNetworksAreTriedOrPortsReserved) {
  join(1, 0);
  join(2, 1);
  answer_probe(1);
  answer_probe(2);
  ASSERT_EQ(leader().phase(), Phase::Preparing);

  signal(SIGINT);

  expect_end(130);
  EXPECT_EQ(last<Release>(2)->code, 130);
}

TEST_F(LeaderOfAgents, StopsRunningWorkersOnASignal) {
  start_two();
  signal(SIGTERM);
  EXPECT_EQ(count<Stop>(2), 1);
  report_stop(1, 0);

  report_stop(2, 2);

  expect_end(143);
  EXPECT_THAT(blamed, IsEmpty());
}

TEST_F(LeaderOfAgents, KillsOnASecondCtrlC) {
  start_two();
  signal(SIGINT);
  EXPECT_EQ(count<Kill>(1), 0);

  signal(SIGINT);

  EXPECT_EQ(count<Kill>(1), 1);
  EXPECT_EQ(count<Kill>(2), 1);
}

TEST_F(LeaderOfAgents, KillsNoWorkerOnASecondSigterm) {
  start_two();
  signal(SIGTERM);
  signal(SIGTERM);

  EXPECT_EQ(count<Kill>(1), 0);
}

TEST_F(LeaderOfAgents, KeepsTheVerdictWhenCtrlCHastensTheStop) {
  plan.max_restarts.value = 3;
  start_two();
  exit(1, 0, code(7));
  signal(SIGINT);
  EXPECT_EQ(count<Kill>(2), 1);
  exit(1, 1, death(SIGKILL), SIGKILL);
  stopped(1);
  report_stop(2, 2);

  explain(1, 0, code(7), "x");

  expect_end(7);
  EXPECT_EQ(begun.size(), 1U);
}

TEST_F(LeaderOfAgents, KeepsTheVerdictOfALostPeerWhenASignalComesWhileItWaitsForTheCause) {
  plan.max_restarts.value = 3;
  start_two();
  exit(1, 0, code(75));

  signal(SIGTERM);

  EXPECT_EQ(count<Stop>(1), 1);
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  report_stop(2, 2);
  explain(1, 0, code(75), "x");
  expect_end(75);
  EXPECT_EQ(blamed.size(), 1U);
  EXPECT_EQ(begun.size(), 1U);
}

TEST_F(LeaderOfAgents, KillsAtOnceWhileItWaitsForTheCause) {
  start_two();
  exit(1, 0, code(75));

  leader().kill("lockstep cancel");
  pass_time(3);

  EXPECT_EQ(count<Kill>(2), 1);
  EXPECT_EQ(count<Stop>(2), 0);
}

TEST_F(LeaderOfAgents, KeepsTheBlameOfALostNodeWhenCtrlCHastensTheStop) {
  start_two();
  lose(2);
  signal(SIGINT);

  report_stop(1, 0);

  expect_end(75);
  EXPECT_EQ(blamed.at(0).who, "node n2");
}

TEST_F(LeaderOfAgents, StartsNoFurtherAttemptWhenAskedToStopWhileExplaining) {
  plan.max_restarts.value = 3;
  start_two();
  exit(1, 0, code(7));
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  report_stop(2, 2);
  ASSERT_EQ(leader().phase(), Phase::Explaining);

  signal(SIGTERM);
  explain(1, 0, code(7), "x");

  expect_end(7);
}

TEST_F(LeaderOfAgents, TakesOneSignalToManyNodesForOne) {
  start_two();
  hear(1, Interrupted{.signal = SIGINT});
  hear(2, Interrupted{.signal = SIGINT});
  signal(SIGINT);  // received by the leader, from the same Ctrl-C
  EXPECT_EQ(count<Stop>(1), 1);
  EXPECT_EQ(count<Kill>(1), 0);

  pass_time(2);
  hear(2, Interrupted{.signal = SIGINT});

  EXPECT_EQ(count<Kill>(1), 1);
}

TEST_F(LeaderOfAgents, ReportsTheNodeThatReceivedASignal) {
  start_two();

  hear(2, Interrupted{.signal = SIGTERM});
  report_stop(1, 0);
  report_stop(2, 2);

  EXPECT_THAT(said, Contains(HasSubstr("n2 received SIGTERM; stopping 4 workers")));
  expect_end(143);
}

TEST_F(LeaderOfAgents, LeavesWith124WhenTheRunTakesTooLong) {
  plan.timeout_seconds.value = 100;
  start_two();
  EXPECT_EQ(leader().deadline().value(), now + std::chrono::seconds(5)) << "the reminder";
  pass_time(101);
  EXPECT_THAT(said.back(), HasSubstr("--timeout 100 s has expired; stopping 4 workers"));

  report_stop(1, 0);
  report_stop(2, 2);

  expect_end(124);
}

TEST_F(LeaderOfAgents, LeavesWith124WhenGatheringTakesTooLong) {
  plan.timeout_seconds.value = 20;
  join(1, 0);

  pass_time(21);

  expect_end(124);
}

TEST_F(LeaderOfAgents, Keeps75OfWorkersThatSavedTheirStateWhenTheTimeWasOver) {
  plan.timeout_seconds.value = 100;
  start_two();
  pass_time(101);
  exit(1, 0, code(75), SIGTERM);
  exit(1, 1, code(75), SIGTERM);
  stopped(1);

  report_stop(2, 2);

  expect_end(75);
}

TEST_F(LeaderOfAgents, GivesWorkersTheTimeThatIsLeftBeforeALimit) {
  plan.max_restarts.value = 3;
  start_two();
  leader().stop_at_limit(100, "the time limit is near", now);
  collect();
  EXPECT_THAT(said.back(), HasSubstr("the time limit is near; stopping 4 workers (at most 100 s"));
  EXPECT_EQ(last<Stop>(1)->grace_seconds, 100);
  EXPECT_FALSE(last<Stop>(1)->is_asked) << "Slurm does not tell the workers";

  pass_time(90);
  signal(SIGTERM);  // at the time limit
  EXPECT_EQ(count<Stop>(1), 1);
  exit(1, 0, code(75), SIGTERM);
  exit(1, 1, code(75), SIGTERM);
  stopped(1);
  report_stop(2, 2);

  expect_end(75);
  EXPECT_TRUE(leader().is_cancelled());
}

TEST_F(LeaderOfAgents, StartsNoFurtherAttemptBeforeALimit) {
  plan.max_restarts.value = 3;
  start_two();
  exit(1, 0, code(7));
  leader().stop_at_limit(100, "the time limit is near", now);
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  report_stop(2, 2);
  explain(1, 0, code(7), "x");

  expect_end(7);
  EXPECT_FALSE(leader().is_cancelled());
}

TEST_F(LeaderOfAgents, CountsAttemptsFromWhereAnEarlierTurnHasEnded) {
  plan.max_restarts.value = 1;
  first_attempt = 4;
  start_two();
  EXPECT_EQ(begun.at(0).layout.attempt, 4);
  fail_attempt(7, "x");
  EXPECT_EQ(blamed.at(0).attempt, 4);
  EXPECT_EQ(blamed.at(0).max_restarts, 5);
  EXPECT_THAT(said.back(), HasSubstr("starting attempt 5: restart 1 of 1"));

  bring_up({1, 2});
  fail_attempt(8, "y");

  expect_end(8);
}

TEST_F(LeaderOfAgents, PassesSignalsOnToRunningWorkersOnly) {
  join(1, 0);
  leader().pass(SIGUSR1);
  join(2, 1);
  bring_up({1, 2});
  EXPECT_EQ(count<Pass>(1), 0);

  leader().pass(SIGUSR1);
  collect();

  EXPECT_EQ(last<Pass>(1)->signal, SIGUSR1);
  EXPECT_EQ(count<Pass>(2), 1);
}

// ---- one process per worker ----

TEST_F(LeaderOfAgents, IsOverWhenEveryTaskHasItsOrder) {
  plan.mode.value = plan::LaunchMode::Task;
  start_two();
  hear(1, Started{.attempt = 0});
  lose(1);  // it becomes a worker
  EXPECT_FALSE(leader().is_over());

  hear(2, Started{.attempt = 0});

  expect_end(0);
  EXPECT_THAT(said, Not(Contains(HasSubstr("lost"))));
}

TEST_F(LeaderOfAgents, FailsWhenATaskIsLostBeforeItHasStarted) {
  plan.mode.value = plan::LaunchMode::Task;
  start_two();
  hear(1, Started{.attempt = 0});

  lose(2);

  expect_end(75);
  EXPECT_EQ(said.back(), "error: node n2 is lost: connection closed");
}

}  // namespace
}  // namespace lockstep::supervisor
