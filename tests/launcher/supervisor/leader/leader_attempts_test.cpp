// SPDX-License-Identifier: Apache-2.0
//
// Ends of attempts: causes and restarts.
#include "launcher/supervisor/leader_of_agents.h"

namespace lockstep::supervisor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Phase = Leader::Phase;

TEST_F(LeaderOfAgents, IsDoneWhenEveryNodeIs) {
  start_two();
  for (const int rank : {0, 1, 2, 3}) {
    exit(1 + rank / 2, rank, code(0));
  }
  stopped(1);
  EXPECT_FALSE(leader().is_over());
  stopped(2);

  expect_end(0);
  EXPECT_EQ(last<Release>(2)->code, 0);
  EXPECT_THAT(blamed, IsEmpty());
}

TEST_F(LeaderOfAgents, BlamesTheFirstFailureOfAllNodes) {
  start_two();
  exit(2, 3, code(7));
  EXPECT_EQ(last<Stop>(1)->grace_seconds, 5);
  EXPECT_EQ(last<Stop>(2)->grace_seconds, 5);
  exit(1, 0, code(9), SIGTERM);
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  exit(2, 2, death(SIGTERM), SIGTERM);
  stopped(2);
  EXPECT_EQ(last<Explain>(2)->process, ProcessId::worker(3));

  explain(2, 3, code(7), "out of ideas");

  expect_end(7);
  ASSERT_EQ(blamed.size(), 1U);
  EXPECT_EQ(blamed[0].who, "rank 3");
  EXPECT_EQ(blamed[0].node, "n2");
  EXPECT_THAT(blamed[0].last_lines, ElementsAre("out of ideas"));
  EXPECT_THAT(blamed[0].stopped,
              ElementsAre(StoppedWorkers{.node = "n1", .count = 2},
                          StoppedWorkers{.node = "n2", .count = 1}));
  EXPECT_THAT(said, Contains(HasSubstr("rank 3 exited with code 7; stopping 3 workers")));
}

// Code 75 often means a lost peer, whose exit is reported a moment later.
TEST_F(LeaderOfAgents, WaitsForTheExitThatExplainsALostPeer) {
  start_two();
  exit(1, 0, code(75));
  pass_time(1);
  exit(1, 1, code(75));
  EXPECT_EQ(count<Stop>(1) + count<Stop>(2), 0);
  EXPECT_EQ(leader().phase(), Phase::Running);

  exit(2, 3, code(1));

  EXPECT_EQ(count<Stop>(2), 1) << "no further wait";
  EXPECT_THAT(said.back(), HasSubstr("rank 3 exited with code 1; stopping 1 worker"));
  stopped(1);
  exit(2, 2, code(75), SIGTERM);
  stopped(2);
  explain(2, 3, code(1), "x");
  expect_end(1);
  ASSERT_EQ(blamed.size(), 1U);
  EXPECT_EQ(blamed.at(0).rank, 3);
  EXPECT_EQ(blamed.at(0).seconds, 0) << "the first exit is the time of the failure";
}

TEST_F(LeaderOfAgents, StopsTheOthersIfNoExitExplainsALostPeer) {
  start_two();
  exit(2, 2, code(75));
  ASSERT_TRUE(leader().deadline());
  EXPECT_LE(*leader().deadline(), now + std::chrono::seconds(2));

  pass_time(2);

  EXPECT_EQ(count<Stop>(1), 1);
  EXPECT_EQ(count<Stop>(2), 1);
  EXPECT_THAT(said.back(),
              HasSubstr("rank 2 exited with code 75 (requests a restart); stopping 3 workers"));
  report_stop(1, 0);
  exit(2, 3, death(SIGTERM), SIGTERM);
  stopped(2);
  explain(2, 2, code(75), "x");
  expect_end(75);
  EXPECT_EQ(blamed.at(0).rank, 2);
}

TEST_F(LeaderOfAgents, WaitsForNoExitIfAllWorkersHaveEnded) {
  start_two();
  for (int rank = 0; rank < 4; ++rank) {
    exit(rank < 2 ? 1 : 2, rank, code(75));
  }
  stopped(1);

  stopped(2);

  EXPECT_EQ(leader().phase(), Phase::Explaining);
  EXPECT_EQ(count<Stop>(1) + count<Stop>(2), 0);
  explain(1, 0, code(75), "x");
  expect_end(75);
}

TEST_F(LeaderOfAgents, DoesNotWaitForACauseWhenANodeIsLost) {
  start_two();
  exit(1, 0, code(75));

  lose(2);

  EXPECT_EQ(count<Stop>(1), 1);
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  expect_end(75);
  EXPECT_EQ(blamed.at(0).who, "node n2");
}

TEST_F(LeaderOfAgents, BlamesWithoutATextIfNoWorkerExplains) {
  start_two();
  exit(2, 3, code(7));
  report_stop(1, 0);
  exit(2, 2, death(SIGTERM), SIGTERM);
  stopped(2);

  pass_time(4);

  expect_end(7);
  EXPECT_EQ(blamed.at(0).who, "rank 3");
}

TEST_F(LeaderOfAgents, BlamesWithoutWordsWhenTheExplanationIsNone) {
  start_two();
  exit(2, 3, code(7));
  report_stop(1, 0);
  exit(2, 2, death(SIGTERM), SIGTERM);
  stopped(2);
  hear(1, Explained{.process = ProcessId::worker(3), .failure = "not asked"});
  EXPECT_FALSE(leader().is_over());

  hear(2, Explained{.process = ProcessId::worker(3), .failure = "{ no JSON"});

  expect_end(7);
  EXPECT_EQ(blamed.at(0).node, "n2");
}

TEST_F(LeaderOfAgents, ReportsTheTimeOfTheFailureNotOfItsExplanation) {
  start_two();
  pass_time(10);
  exit(1, 0, code(7));
  pass_time(2);
  report_stop(2, 2);
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  explain(1, 0, code(7), "boom");

  expect_end(7);
  EXPECT_NEAR(blamed.at(0).seconds, 10, 0.001);
}

TEST_F(LeaderOfAgents, HearsNoExitsOfProcessesThatAreNotTheAgents) {
  start_two();
  exit(1, 2, code(7));
  exit(1, 77, code(7));
  exit(1, -5, code(7));
  exit(1, ProcessId::fork_server(1), code(7));

  EXPECT_EQ(leader().phase(), Phase::Running);
}

TEST_F(LeaderOfAgents, DistinguishesTheForkServersOfTwoNodes) {
  start_two();

  exit(2, ProcessId::fork_server(1), code(127));
  stopped(1);
  stopped(2);

  EXPECT_EQ(last<Explain>(2)->process, ProcessId::fork_server(1));
  EXPECT_FALSE(last<Explain>(1));
}

TEST_F(LeaderOfAgents, SaysWhatTheWorkersHadLeftBehind) {
  start_two();

  hear(2, Stopped{.attempt = 0, .left_behind = 3});

  EXPECT_EQ(said.back(), "killed 3 processes that the workers had left behind on n2");
}

TEST_F(LeaderOfAgents, LeavesWithoutANodeThatDoesNotStopAndStartsNoOther) {
  plan.max_restarts.value = 3;
  start_two();
  exit(1, 0, code(7));
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);

  pass_time(21);
  explain(1, 0, code(7), "x");

  expect_end(7);
  EXPECT_THAT(said, Contains(HasSubstr("no answer from n2")));
}

// ---- lost nodes ----

TEST_F(LeaderOfAgents, TakesTheBlameFromAnExitCodeToALostNode) {
  start_two();
  exit(1, 0, code(1));
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);

  lose(2);

  expect_end(75);
  EXPECT_EQ(blamed.at(0).who, "node n2");
  EXPECT_EQ(blamed.at(0).cause, "is lost: connection closed");
}

TEST_F(LeaderOfAgents, LeavesTheBlameWithASignalWhenANodeIsLostAfterIt) {
  start_two();
  exit(1, 0, death(SIGSEGV));
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  lose(2);

  explain(1, 0, death(SIGSEGV), "");

  expect_end(128 + SIGSEGV);
}

TEST_F(LeaderOfAgents, StopsTheOthersWhenANodeIsLost) {
  start_two();
  lose(2);
  EXPECT_EQ(leader().phase(), Phase::Stopping);
  EXPECT_EQ(count<Stop>(1), 1);

  report_stop(1, 0);

  expect_end(75);
  EXPECT_EQ(last<Release>(1)->code, 75);
}

TEST_F(LeaderOfAgents, EndsWhenANodeIsLostBeforeTheWorkersStart) {
  join(1, 0);
  join(2, 1);
  answer_probe(1);

  lose(2);

  expect_end(75);
  EXPECT_EQ(blamed.at(0).who, "node n2");
}

TEST_F(LeaderOfAgents, EndsWhenANodeIsLostWhilePortsAreReserved) {
  join(1, 0);
  join(2, 1);
  answer_probe(1);
  answer_probe(2);

  lose(1);

  expect_end(75);
  EXPECT_EQ(blamed.at(0).who, "node n1");
}

TEST_F(LeaderOfAgents, DoesNotMissANodeWhoseWorkersHadEnded) {
  start_two();
  exit(2, 2, code(0));
  exit(2, 3, code(0));
  stopped(2);

  lose(2);
  EXPECT_EQ(leader().phase(), Phase::Running);
  EXPECT_EQ(said.back(), "node n2 is lost, but its workers had ended: connection closed");
  exit(1, 0, code(0));
  exit(1, 1, code(0));
  stopped(1);

  expect_end(0);
}

TEST_F(LeaderOfAgents, WaitsForTheExplanationWhenAnotherNodeIsLost) {
  start_two();
  exit(1, 0, code(7));
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  report_stop(2, 2);
  lose(2);
  EXPECT_EQ(leader().phase(), Phase::Explaining);

  explain(1, 0, code(7), "the reason");

  expect_end(7);
  EXPECT_THAT(blamed.at(0).last_lines, ElementsAre("the reason"));
}

TEST_F(LeaderOfAgents, BlamesWithoutWordsWhenTheNodeThatKnowsIsLost) {
  start_two();
  exit(1, 0, code(7));
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  report_stop(2, 2);

  lose(1);

  expect_end(7);
  EXPECT_EQ(blamed.at(0).who, "rank 0");
}

// ---- further attempts ----

TEST_F(LeaderOfAgents, StartsAsManyAttemptsAsAllowed) {
  plan.max_restarts.value = 2;
  start_two();
  fail_attempt(1, "first");
  EXPECT_THAT(said, Contains("starting attempt 1: restart 1 of 2"));
  EXPECT_EQ(count<Probe>(1), 1) << "the network is known";
  bring_up({1, 2});
  EXPECT_EQ(begun.back().layout.attempt, 1);
  EXPECT_EQ(begun.back().layout.slots[1].address, "10.0.0.2");
  fail_attempt(1, "second");
  bring_up({1, 2});
  EXPECT_EQ(begun.back().layout.attempt, 2);

  fail_attempt(3, "third");

  expect_end(3);
  EXPECT_EQ(blamed.size(), 3U);
  EXPECT_EQ(blamed.back().attempt, 2);
}

TEST_F(LeaderOfAgents, DoesNotAskAgainWhereAWorkerWasAskedWrongly) {
  plan.max_restarts.value = 3;
  start_two();

  fail_attempt(64, "cannot read the option");

  expect_end(64);
  EXPECT_EQ(said.back(), "not restarting: exit code 64 means that a restart does not help");
}

TEST_F(LeaderOfAgents, GivesUpWhenTwoAttemptsDieAtTheSamePlace) {
  plan.max_restarts.value = 9;
  start_two();
  fail_attempt(1, "ValueError: x");
  bring_up({1, 2});

  fail_attempt(1, "ValueError: x");

  expect_end(1);
  EXPECT_EQ(said.back(), "not restarting: two attempts failed at the same point without progress");
}

TEST_F(LeaderOfAgents, GoesOnWhenAnAttemptCameFurther) {
  plan.max_restarts.value = 2;
  start_two();
  fail_attempt(1, "ValueError: x");
  bring_up({1, 2});
  leader().set_progress(100);

  fail_attempt(1, "ValueError: x");

  bring_up({1, 2});
  fail_attempt(1, "ValueError: x");
  expect_end(1);
  EXPECT_EQ(blamed.size(), 3U);
}

TEST_F(LeaderOfAgents, GoesOnWhenAttemptsDieInOtherWays) {
  plan.max_restarts.value = 3;
  start_two();
  fail_attempt(1, "ValueError: x");
  bring_up({1, 2});
  fail_attempt(1, "ValueError: y");
  bring_up({1, 2});

  fail_attempt(2, "ValueError: y");

  bring_up({1, 2});
}

TEST_F(LeaderOfAgents, TakesNoReportOfAnEarlierAttempt) {
  plan.max_restarts.value = 1;
  start_two();
  fail_attempt(1, "first");
  bring_up({1, 2});

  hear(1, Exited{.attempt = 0, .process = ProcessId::worker(0), .status = code(1), .sent = 0});
  hear(1, Stopped{.attempt = 0, .left_behind = 0});
  hear(2, Stopped{.attempt = 0, .left_behind = 0});

  EXPECT_EQ(leader().phase(), Phase::Running);
}

TEST_F(LeaderOfAgents, StartsNoAttemptWithFewerNodesThanNeeded) {
  plan.max_restarts.value = 3;
  start_two();
  exit(1, 0, code(7));
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  report_stop(2, 2);
  lose(2);

  explain(1, 0, code(7), "x");

  expect_end(7);
  EXPECT_EQ(said.back(), "not restarting: the run needs 2 nodes, and 1 is left");
}

// ---- MIN:MAX ----

TEST_F(LeaderOfAgents, BeginsWithEnoughNodesAfterTheLastCall) {
  set_nodes(2, 4);
  join(1);
  join(2);
  pass_time(9);
  EXPECT_EQ(leader().phase(), Phase::Gathering);

  pass_time(2);

  bring_up({1, 2});
  EXPECT_THAT(slots(), ElementsAre("n1", "n2"));
}

TEST_F(LeaderOfAgents, BeginsWithEnoughNodesWhenTheStartTimesOutBeforeTheLastCall) {
  set_nodes(2, 4);
  plan.last_call_seconds.value = 600;
  join(1);
  join(2);

  pass_time(61);

  bring_up({1, 2});
}

TEST_F(LeaderOfAgents, CallsAgainWhenOneOfEnoughLeaves) {
  set_nodes(2, 4);
  join(1);
  join(2);
  lose(2);
  pass_time(11);
  EXPECT_EQ(leader().phase(), Phase::Gathering);

  join(3);
  pass_time(11);

  bring_up({1, 3});
}

TEST_F(LeaderOfAgents, GoesOnWithFewerNodesAndKeepsTheBudget) {
  set_nodes(1, 3);
  join(1, 0);
  join(2, 1);
  join(3, 2);
  bring_up({1, 2, 3});
  lose(2);
  report_stop(1, 0);
  report_stop(3, 4);
  EXPECT_THAT(said, Contains("starting attempt 1: continuing with 2 nodes"));

  bring_up({1, 3});

  EXPECT_THAT(slots(), ElementsAre("n1", "n3"));
  EXPECT_EQ(begun.back().layout.attempt, 1);
  EXPECT_EQ(count<Probe>(1), 2) << "the network is chosen anew";
  EXPECT_EQ(blamed.at(0).who, "node n2");
}

TEST_F(LeaderOfAgents, TakesInAtTheNextAttemptWhoCameLate) {
  set_nodes(1, 3);
  join(1, 0);
  join(2, 1);
  pass_time(11);
  bring_up({1, 2});
  join(3, 2);
  EXPECT_EQ(said.back(), "node n3 joined; it takes part from the next attempt");
  lose(2);
  report_stop(1, 0);

  bring_up({1, 3});

  EXPECT_THAT(slots(), ElementsAre("n1", "n3"));
  EXPECT_EQ(begun.back().layout.slots[1].node, 2);
}

TEST_F(LeaderOfAgents, FailsWithFewerNodesThanTheMinimum) {
  set_nodes(2, 3);
  join(1, 0);
  join(2, 1);
  pass_time(11);
  bring_up({1, 2});
  lose(2);

  report_stop(1, 0);

  expect_end(75);
  EXPECT_EQ(said.back(), "not restarting: the run needs 2 nodes, and 1 is left");
}

TEST_F(LeaderOfAgents, DoesNotContinueWithFewerNodesAfterARequestToStop) {
  set_nodes(1, 2);
  start_two();
  lose(2);
  signal(SIGTERM);

  report_stop(1, 0);

  expect_end(75);
}

}  // namespace
}  // namespace lockstep::supervisor
