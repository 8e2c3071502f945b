// SPDX-License-Identifier: Apache-2.0
//
// The phases of a leader from the first agent to running workers.
#include "launcher/supervisor/leader_of_agents.h"

namespace lockstep::supervisor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Phase = Leader::Phase;

TEST_F(LeaderOfAgents, OrdersNodesByTheirNumbersRegardlessOfTheirArrival) {
  set_nodes(3, 3);
  join(1, 2);
  join(2, 0);
  join(3, 1);

  bring_up({1, 2, 3});

  EXPECT_THAT(slots(), ElementsAre("n2", "n3", "n1"));
  EXPECT_THAT(begun.back().agents, ElementsAre(2, 3, 1));
}

TEST_F(LeaderOfAgents, OrdersNodesWithoutANumberByTheirIndexAndThenByArrival) {
  set_nodes(4, 4);
  join(1, {}, 9);
  join(2, {}, 4);
  join(3, 1);
  join(4, {}, 4);

  bring_up({1, 2, 3, 4});

  EXPECT_THAT(slots(), ElementsAre("n2", "n3", "n4", "n1"));
}

TEST_F(LeaderOfAgents, BeginsAtOnceWhenThereIsOneNode) {
  set_nodes(1, 1);
  join(1, 0);

  EXPECT_EQ(count<Probe>(1), 0);
  bring_up({1});
  EXPECT_EQ(begun.back().layout.slots.front().address, "127.0.0.1");
  EXPECT_EQ(begun.back().layout.master_port, 20002) << "the port behind those of two workers";
}

TEST_F(LeaderOfAgents, NamesTheNodesThatDidNotCome) {
  set_nodes(4, 4);
  plan.nodes[0].name = "gpu-1";
  plan.nodes[3].name = "gpu-4";
  join(1, 1);
  join(2);

  pass_time(61);

  expect_end(69);
  EXPECT_THAT(said.back(),
              HasSubstr("cannot start the run: node 2, gpu-4 did not join within 60 s"));
  EXPECT_EQ(last<Release>(1)->code, 69);
}

TEST_F(LeaderOfAgents, RemindsOfThoseItWaitsFor) {
  join(1, 0);

  pass_time(5);

  EXPECT_EQ(said.back(), "waiting for node 1 (5 s); 1 of 2 nodes have joined");
}

TEST_F(LeaderOfAgents, RejectsNodesThatCannotJoinAndReportsIt) {
  join(1, 0);
  const auto refused = [this](int agent, Join join) {
    hear(agent, join);
    const auto release = last<Release>(agent);
    return release && release->code == 64 ? release->text : "taken";
  };

  Join other = offer(2);
  other.protocol = 77;
  EXPECT_THAT(refused(2, other), HasSubstr("it uses protocol 77, the leader protocol"));
  Join twice = offer(3);
  twice.node = 0;
  EXPECT_EQ(refused(3, twice), "cannot join the run: node rank 0 is already taken");
  Join beyond = offer(4);
  beyond.node = 2;
  EXPECT_EQ(refused(4, beyond),
            "cannot join the run: node rank 2 is out of range, the run has 2 nodes");
  EXPECT_EQ(leader().agents(), 1);
}

TEST_F(LeaderOfAgents, RefusesMoreThanThePlanHas) {
  start_two();

  join(3);

  EXPECT_EQ(last<Release>(3)->text, "cannot join the run: the run already has 2 nodes");
  EXPECT_THAT(said, Contains("rejected node n3: the run already has 2 nodes"));
}

TEST_F(LeaderOfAgents, DoesNotReuseTheNumberOfANodeThatCameWithoutOne) {
  set_nodes(1, 3);
  join(1);
  join(2);
  pass_time(11);
  bring_up({1, 2});

  join(3, 1);

  EXPECT_EQ(last<Release>(3)->text, "cannot join the run: node rank 1 is already taken");
}

TEST_F(LeaderOfAgents, EndsWhenANodeCannotHelp) {
  join(1, 0);
  Join broken = offer(2);
  broken.fault = "cannot change to /scratch";
  broken.fault_code = 69;

  hear(2, broken);

  expect_end(69);
  EXPECT_EQ(said.back(), "error: on n2: cannot change to /scratch");
}

TEST_F(LeaderOfAgents, GoesOnWhenOneThatComesLaterCannotHelp) {
  set_nodes(1, 2);
  join(1);
  pass_time(11);
  bring_up({1});
  Join broken = offer(2);
  broken.fault = "cannot change to /scratch";
  broken.fault_code = 69;

  hear(2, broken);

  EXPECT_EQ(leader().phase(), Phase::Running);
  EXPECT_EQ(last<Release>(2)->code, 69);
}

TEST_F(LeaderOfAgents, WaitsForAnotherInThePlaceOfOneThatLeftBeforeTheStart) {
  join(1, 0);
  lose(1);
  join(2, 1);
  EXPECT_EQ(leader().phase(), Phase::Gathering);

  join(3, 0);

  bring_up({2, 3});
  EXPECT_THAT(slots(), ElementsAre("n3", "n2"));
}

TEST_F(LeaderOfAgents, IgnoresReportsOfStrangersAndSecondJoins) {
  join(1, 0);
  hear(9, Stopped{.attempt = 0, .left_behind = 0});
  join(1, 1);

  EXPECT_EQ(leader().agents(), 1);
  EXPECT_EQ(leader().phase(), Phase::Gathering);
}

// ---- networks ----

TEST_F(LeaderOfAgents, TriesEveryPairInBothDirectionsAndReportsItsChoice) {
  join(1, 0);
  join(2, 1);

  const auto probe = last<Probe>(1);
  ASSERT_TRUE(probe);
  EXPECT_THAT(
      probe->targets,
      ElementsAre(Target{
          .to = 1, .network = 0, .address = "10.0.0.2", .port = 7002, .source = "10.0.0.1"}));
  bring_up({1, 2});

  EXPECT_THAT(said.back(), HasSubstr("the only network of all 2 nodes"));
  EXPECT_EQ(begun.back().layout.master_addr, "10.0.0.1");
  EXPECT_EQ(begun.back().layout.slots[1].interface, "eth0");
}

TEST_F(LeaderOfAgents, TriesASecondTimeAndThenSaysWhoReachesWhom) {
  join(1, 0);
  join(2, 1);
  answer_probe(1, "no answer");
  answer_probe(2, "no answer");
  EXPECT_EQ(count<Probe>(1), 2);
  EXPECT_EQ(last<Probe>(1)->timeout_ms, 4000);

  answer_probe(1);
  answer_probe(2, "no answer");

  expect_end(69);
  EXPECT_THAT(said.back(), HasSubstr("the only network of the 2 nodes does not connect them"));
  EXPECT_THAT(said.back(), HasSubstr("n2 -> n1 no answer (1 of 2 pairs failed)"));
}

TEST_F(LeaderOfAgents, SaysThatThereIsNoCommonNetwork) {
  plan.interfaces.value = "ib0";
  join(1, 0);
  join(2, 1);

  expect_end(69);
  EXPECT_THAT(said.back(), HasSubstr("the 2 nodes have no common network"));
  EXPECT_THAT(said.back(), HasSubstr("--network-interfaces ib0 excludes all; available: 10."));
}

TEST_F(LeaderOfAgents, TakesNoAnswerToAnEarlierTry) {
  join(1, 0);
  join(2, 1);
  const Probed old{.round = last<Probe>(1)->round, .trials = {{0, 1, 0, "no answer", 1}}};
  answer_probe(1, "no answer");
  answer_probe(2, "no answer");

  hear(1, old);
  hear(2, old);

  EXPECT_EQ(leader().phase(), Phase::Probing);
  bring_up({1, 2});
}

TEST_F(LeaderOfAgents, DoesNotWaitForeverForANodeThatTriesNothing) {
  join(1, 0);
  join(2, 1);
  answer_probe(1);
  pass_time(61);
  EXPECT_EQ(leader().phase(), Phase::Probing) << "once more";
  answer_probe(1);

  pass_time(61);

  expect_end(69);
  EXPECT_THAT(said.back(), HasSubstr("n2 -> n1 not tried"));
}

TEST_F(LeaderOfAgents, LetsOneThatComesAmidTheTrialsWait) {
  set_nodes(2, 3);
  join(1, 0);
  join(2, 1);
  pass_time(11);
  answer_probe(1, "no answer");

  join(3, 2);
  answer_probe(2, "no answer");
  bring_up({1, 2});

  EXPECT_THAT(slots(), ElementsAre("n1", "n2"));
  EXPECT_THAT(commands[3], IsEmpty());
}

TEST_F(LeaderOfAgents, NamesTheNodeThatReservesNoPorts) {
  join(1, 0);
  join(2, 1);
  answer_probe(1);
  answer_probe(2);
  answer_prepare(1);

  pass_time(61);

  expect_end(69);
  EXPECT_THAT(said.back(), HasSubstr("n2 did not reserve ports within 60 s"));
}

TEST_F(LeaderOfAgents, EndsWithTheWordsOfANodeThatCannotStart) {
  start_two();

  hear(2, Refused{.attempt = 0, .code = 64, .text = "cannot run './train': no such file"});

  expect_end(64);
  EXPECT_EQ(said.back(), "error: on n2: cannot run './train': no such file");
  EXPECT_EQ(last<Release>(1)->code, 64);
}

}  // namespace
}  // namespace lockstep::supervisor
