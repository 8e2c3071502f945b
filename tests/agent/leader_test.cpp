// SPDX-License-Identifier: Apache-2.0
#include "agent/leader.h"

#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/text.h"

namespace lockstep::agent {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Phase = Leader::Phase;

os::ExitStatus code(int number) {
  return {.code = number, .signal = 0};
}
os::ExitStatus death(int signal) {
  return {.code = 0, .signal = signal};
}

// A leader, agents that tests speak for, and a clock that tests own. Agents are numbers; agent 10
// runs on n10, has the address 10.0.0.10 and two workers.
class LeaderOfAgents : public ::testing::Test {
 protected:
  LeaderOfAgents() {
    plan.way.value = plan::Way::Peers;
    plan.grace_seconds.value = 5;
    plan.start_timeout_seconds.value = 60;
    plan.last_call_seconds.value = 10;
    plan.max_restarts.value = 0;
    set_nodes(2, 2);
  }

  void set_nodes(int least, int most) {
    plan.nodes.resize(static_cast<size_t>(most));
    plan.min_nodes.value = least;
    for (plan::Node& node : plan.nodes) {
      node.workers.value = 2;
    }
  }

  // ---- what happens ----

  Leader& leader() {
    if (!leader_) {
      leader_.emplace(plan, now, first_attempt);
    }
    return *leader_;
  }

  static Join offer(int agent) {
    Join join;
    join.name = fmt::format("n{}", agent);
    join.machine = join.name;
    join.cores = 4;
    join.probe_port = 7000 + agent;
    join.addresses = {{.interface = "eth0", .text = fmt::format("10.0.0.{}", agent), .prefix = 24}};
    return join;
  }

  void hear(int agent, const Report& report) {
    leader().take(agent, report, now);
    collect();
  }

  void join(int agent, std::optional<int> node = {}, int order = 0) {
    Join one = offer(agent);
    one.node = node;
    one.order = order;
    hear(agent, one);
  }

  void lose(int agent) {
    leader().lose(agent, "its connection is closed", now);
    collect();
  }

  void pass_time(double seconds) {
    now += duration_cast<Leader::Clock::duration>(duration<double>(seconds));
    leader().tick(now);
    collect();
  }

  void signal(int number) {
    leader().stop(number, "SIG came", now);
    collect();
  }

  void answer_probe(int agent, const std::string& fault = "") {
    const auto probe = last<Probe>(agent);
    ASSERT_TRUE(probe) << agent;
    Probed probed{.round = probe->round, .trials = {}};
    for (const Target& target : probe->targets) {
      probed.trials.push_back({probe->self, target.to, target.network, fault, 1});
    }
    hear(agent, probed);
  }

  void answer_prepare(int agent) {
    const auto prepare = last<Prepare>(agent);
    ASSERT_TRUE(prepare) << agent;
    Prepared prepared{.attempt = prepare->attempt, .ports = {}};
    for (int i = 0; i < prepare->ports; ++i) {
      prepared.ports.push_back(20000 + i);
    }
    hear(agent, prepared);
  }

  // To the start of the workers; after an attempt with the same agents nobody is probed.
  void bring_up(const std::vector<int>& agents) {
    for (const int agent : agents) {
      if (leader().phase() == Phase::Probing) {
        answer_probe(agent);
      }
    }
    for (const int agent : agents) {
      answer_prepare(agent);
    }
    ASSERT_EQ(leader().phase(), Phase::Running);
  }

  void start_two() {
    join(1, 0);
    join(2, 1);
    bring_up({1, 2});
  }

  void exit(int agent, int rank, os::ExitStatus status, int sent = 0) {
    hear(agent,
         Exited{.attempt = leader().attempt(), .rank = rank, .status = status, .sent = sent});
  }

  void stopped(int agent) { hear(agent, Stopped{.attempt = leader().attempt(), .left_behind = 0}); }

  // The agent's two workers, from `first` on, obey.
  void obey_stop(int agent, int first) {
    exit(agent, first, death(SIGTERM), SIGTERM);
    exit(agent, first + 1, death(SIGTERM), SIGTERM);
    stopped(agent);
  }

  void explain(int agent, int rank, os::ExitStatus status, const std::string& last_line) {
    Failure failure;
    failure.who = fmt::format("rank {}", rank);
    failure.rank = rank;
    failure.node = fmt::format("n{}", agent);
    failure.pid = 77;
    failure.attempt = leader().attempt();
    failure.status = status;
    failure.last_lines = {last_line};
    hear(agent, Explained{.rank = rank, .failure = to_json(failure)});
  }

  // Rank 0 of agent 1 fails, all stop, and agent 1 says why.
  void fail_attempt(int with_code, const std::string& last_line) {
    exit(1, 0, code(with_code));
    exit(1, 1, death(SIGTERM), SIGTERM);
    stopped(1);
    obey_stop(2, 2);
    explain(1, 0, code(with_code), last_line);
  }

  // ---- what follows ----

  void collect() {
    for (Action& action : leader().take_actions()) {
      if (auto* say = std::get_if<Say>(&action)) {
        said.push_back(say->text);
      } else if (auto* blame = std::get_if<Blame>(&action)) {
        blamed.push_back(blame->failure);
      } else if (auto* begin = std::get_if<Begin>(&action)) {
        begun.push_back(*begin);
      } else {
        const auto& send = std::get<Send>(action);
        orders[send.agent].push_back(send.order);
      }
    }
  }

  template <typename Kind>
  std::optional<Kind> last(int agent) {
    for (auto order = orders[agent].rbegin(); order != orders[agent].rend(); ++order) {
      if (const auto* found = std::get_if<Kind>(&*order)) {
        return *found;
      }
    }
    return std::nullopt;
  }

  template <typename Kind>
  int count(int agent) {
    return static_cast<int>(
        std::count_if(orders[agent].begin(), orders[agent].end(), [](const Order& order) {
          return std::holds_alternative<Kind>(order);
        }));
  }

  std::vector<std::string> seats() const {
    std::vector<std::string> names;
    for (const plan::Seat& seat : begun.back().assembly.seats) {
      names.push_back(seat.name);
    }
    return names;
  }

  void expect_end(int with_code) {
    EXPECT_TRUE(leader().is_over());
    EXPECT_EQ(leader().exit_code(), with_code);
  }

  plan::LaunchPlan plan;
  Leader::Time now = Leader::Clock::now();
  std::vector<std::string> said;
  std::vector<Failure> blamed;
  std::vector<Begin> begun;
  std::map<int, std::vector<Order>> orders;
  int first_attempt = 0;

 private:
  std::optional<Leader> leader_;
};

// ---- gathering ----

TEST_F(LeaderOfAgents, SeatsNodesByTheirNumbersWhateverTheirOrderOfArrival) {
  set_nodes(3, 3);
  join(1, 2);
  join(2, 0);
  join(3, 1);

  bring_up({1, 2, 3});

  EXPECT_THAT(seats(), ElementsAre("n2", "n3", "n1"));
  EXPECT_THAT(begun.back().agents, ElementsAre(2, 3, 1));
}

TEST_F(LeaderOfAgents, SeatsNodesWithoutANumberByTheirOrderAndThenByArrival) {
  set_nodes(4, 4);
  join(1, {}, 9);
  join(2, {}, 4);
  join(3, 1);
  join(4, {}, 4);

  bring_up({1, 2, 3, 4});

  EXPECT_THAT(seats(), ElementsAre("n2", "n3", "n4", "n1"));
}

TEST_F(LeaderOfAgents, BeginsAtOnceWhenThereIsOneNode) {
  set_nodes(1, 1);
  join(1, 0);

  EXPECT_EQ(count<Probe>(1), 0);
  bring_up({1});
  EXPECT_EQ(begun.back().assembly.seats.front().address, "127.0.0.1");
  EXPECT_EQ(begun.back().assembly.master_port, 20002) << "the port behind those of two workers";
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
              HasSubstr("cannot bring up the gang: node 2, gpu-4 did not come within 60 s"));
  EXPECT_EQ(last<Release>(1)->code, 69);
}

TEST_F(LeaderOfAgents, RemindsOfThoseItWaitsFor) {
  join(1, 0);

  pass_time(5);

  EXPECT_EQ(said.back(), "waiting for node 1 since 5 s; 1 of 2 nodes are here");
}

TEST_F(LeaderOfAgents, RefusesWhoCannotJoinAndTellsIt) {
  join(1, 0);
  const auto refused = [this](int agent, Join join) {
    hear(agent, join);
    const auto release = last<Release>(agent);
    return release && release->code == 64 ? release->text : "taken";
  };

  Join other = offer(2);
  other.protocol = 77;
  EXPECT_THAT(refused(2, other), HasSubstr("it speaks protocol 77 and we speak"));
  Join twice = offer(3);
  twice.node = 0;
  EXPECT_EQ(refused(3, twice), "cannot join the run: there is a node 0 already");
  Join beyond = offer(4);
  beyond.node = 2;
  EXPECT_EQ(refused(4, beyond), "cannot join the run: it was started as node 2 of 2");
  EXPECT_EQ(leader().agents(), 1);
}

TEST_F(LeaderOfAgents, RefusesMoreThanThePlanHas) {
  start_two();

  join(3);

  EXPECT_EQ(last<Release>(3)->text, "cannot join the run: there are 2 nodes already");
  EXPECT_THAT(said, Contains("n3 may not join: there are 2 nodes already"));
}

TEST_F(LeaderOfAgents, GivesNobodyTheNumberOfANodeThatCameWithoutOne) {
  set_nodes(1, 3);
  join(1);
  join(2);
  pass_time(11);
  bring_up({1, 2});

  join(3, 1);

  EXPECT_EQ(last<Release>(3)->text, "cannot join the run: there is a node 1 already");
}

TEST_F(LeaderOfAgents, EndsWhenANodeCannotHelp) {
  join(1, 0);
  Join broken = offer(2);
  broken.fault = "cannot work in /scratch";
  broken.fault_code = 69;

  hear(2, broken);

  expect_end(69);
  EXPECT_EQ(said.back(), "error: on n2: cannot work in /scratch");
}

TEST_F(LeaderOfAgents, GoesOnWhenOneThatComesLaterCannotHelp) {
  set_nodes(1, 2);
  join(1);
  pass_time(11);
  bring_up({1});
  Join broken = offer(2);
  broken.fault = "cannot work in /scratch";
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
  EXPECT_THAT(seats(), ElementsAre("n3", "n2"));
}

TEST_F(LeaderOfAgents, IgnoresReportsOfStrangersAndSecondJoins) {
  join(1, 0);
  hear(9, Stopped{.attempt = 0, .left_behind = 0});
  join(1, 1);

  EXPECT_EQ(leader().agents(), 1);
  EXPECT_EQ(leader().phase(), Phase::Gathering);
}

// ---- networks ----

TEST_F(LeaderOfAgents, TriesEveryPairBothWaysAndTellsItsChoice) {
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
  EXPECT_EQ(begun.back().assembly.master_addr, "10.0.0.1");
  EXPECT_EQ(begun.back().assembly.seats[1].interface, "eth0");
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
  EXPECT_THAT(said.back(), HasSubstr("the 2 nodes have no network in common"));
  EXPECT_THAT(said.back(), HasSubstr("--network-interfaces ib0 leaves none; without it: 10."));
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

  EXPECT_THAT(seats(), ElementsAre("n1", "n2"));
  EXPECT_THAT(orders[3], IsEmpty());
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

// ---- the end ----

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
  EXPECT_EQ(last<Explain>(2)->rank, 3);

  explain(2, 3, code(7), "out of ideas");

  expect_end(7);
  ASSERT_EQ(blamed.size(), 1U);
  EXPECT_EQ(blamed[0].who, "rank 3");
  EXPECT_EQ(blamed[0].node, "n2");
  EXPECT_THAT(blamed[0].last_lines, ElementsAre("out of ideas"));
  EXPECT_THAT(blamed[0].stopped,
              ElementsAre(StoppedWorkers{.node = "n1", .count = 2},
                          StoppedWorkers{.node = "n2", .count = 1}));
  EXPECT_THAT(said, Contains(HasSubstr("rank 3 left with code 7; stopping 3 workers")));
}

TEST_F(LeaderOfAgents, BlamesWithoutWordsWhenNobodyExplains) {
  start_two();
  exit(2, 3, code(7));
  obey_stop(1, 0);
  exit(2, 2, death(SIGTERM), SIGTERM);
  stopped(2);

  pass_time(4);

  expect_end(7);
  EXPECT_EQ(blamed.at(0).who, "rank 3");
}

TEST_F(LeaderOfAgents, BlamesWithoutWordsWhenTheExplanationIsNone) {
  start_two();
  exit(2, 3, code(7));
  obey_stop(1, 0);
  exit(2, 2, death(SIGTERM), SIGTERM);
  stopped(2);
  hear(1, Explained{.rank = 3, .failure = "not asked"});
  EXPECT_FALSE(leader().is_over());

  hear(2, Explained{.rank = 3, .failure = "{ no JSON"});

  expect_end(7);
  EXPECT_EQ(blamed.at(0).node, "n2");
}

TEST_F(LeaderOfAgents, TellsWhenItFailedNotWhenItWasExplained) {
  start_two();
  pass_time(10);
  exit(1, 0, code(7));
  pass_time(2);
  obey_stop(2, 2);
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  explain(1, 0, code(7), "boom");

  expect_end(7);
  EXPECT_NEAR(blamed.at(0).seconds, 10, 0.001);
}

TEST_F(LeaderOfAgents, HearsNoExitsOfRanksThatAreNotTheAgents) {
  start_two();
  exit(1, 2, code(7));
  exit(1, 77, code(7));
  exit(1, -5, code(7));

  EXPECT_EQ(leader().phase(), Phase::Running);
}

TEST_F(LeaderOfAgents, TellsTheSeedsOfTwoNodesApart) {
  start_two();

  exit(2, -1, code(127));
  stopped(1);
  stopped(2);

  EXPECT_EQ(last<Explain>(2)->rank, -1);
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
  EXPECT_THAT(said, Contains(HasSubstr("leaving without an answer from n2")));
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
  EXPECT_EQ(blamed.at(0).cause, "is lost: its connection is closed");
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

  obey_stop(1, 0);

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
  EXPECT_EQ(said.back(), "n2 is lost after its workers had ended: its connection is closed");
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
  obey_stop(2, 2);
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
  obey_stop(2, 2);

  lose(1);

  expect_end(7);
  EXPECT_EQ(blamed.at(0).who, "rank 0");
}

// ---- further attempts ----

TEST_F(LeaderOfAgents, StartsAsManyAttemptsAsAllowed) {
  plan.max_restarts.value = 2;
  start_two();
  fail_attempt(1, "first");
  EXPECT_THAT(said, Contains("attempt 1 begins: restart 1 of 2"));
  EXPECT_EQ(count<Probe>(1), 1) << "the network is known";
  bring_up({1, 2});
  EXPECT_EQ(begun.back().assembly.attempt, 1);
  EXPECT_EQ(begun.back().assembly.seats[1].address, "10.0.0.2");
  fail_attempt(1, "second");
  bring_up({1, 2});
  EXPECT_EQ(begun.back().assembly.attempt, 2);

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
  EXPECT_EQ(said.back(), "no further attempt: code 64 says that asking again will not help");
}

TEST_F(LeaderOfAgents, GivesUpWhenTwoAttemptsDieAtTheSamePlace) {
  plan.max_restarts.value = 9;
  start_two();
  fail_attempt(1, "ValueError: x");
  bring_up({1, 2});

  fail_attempt(1, "ValueError: x");

  expect_end(1);
  EXPECT_EQ(said.back(),
            "no further attempt: two attempts have died at the same place without progress");
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

  hear(1, Exited{.attempt = 0, .rank = 0, .status = code(1), .sent = 0});
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
  obey_stop(2, 2);
  lose(2);

  explain(1, 0, code(7), "x");

  expect_end(7);
  EXPECT_EQ(said.back(), "no further attempt: it needs 2 nodes, and 1 is left");
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
  EXPECT_THAT(seats(), ElementsAre("n1", "n2"));
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
  obey_stop(1, 0);
  obey_stop(3, 4);
  EXPECT_THAT(said, Contains("attempt 1 begins: going on with 2 nodes"));

  bring_up({1, 3});

  EXPECT_THAT(seats(), ElementsAre("n1", "n3"));
  EXPECT_EQ(begun.back().assembly.attempt, 1);
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
  EXPECT_EQ(said.back(), "n3 has come; it joins at the next attempt");
  lose(2);
  obey_stop(1, 0);

  bring_up({1, 3});

  EXPECT_THAT(seats(), ElementsAre("n1", "n3"));
  EXPECT_EQ(begun.back().assembly.seats[1].node, 2);
}

TEST_F(LeaderOfAgents, FailsWithFewerNodesThanTheLeast) {
  set_nodes(2, 3);
  join(1, 0);
  join(2, 1);
  pass_time(11);
  bring_up({1, 2});
  lose(2);

  obey_stop(1, 0);

  expect_end(75);
  EXPECT_EQ(said.back(), "no further attempt: it needs 2 nodes, and 1 is left");
}

TEST_F(LeaderOfAgents, DoesNotGoOnWithFewerNodesWhenSomebodyAskedToStop) {
  set_nodes(1, 2);
  start_two();
  lose(2);
  signal(SIGTERM);

  obey_stop(1, 0);

  expect_end(75);
}

// ---- signals and time ----

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
  obey_stop(1, 0);

  obey_stop(2, 2);

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

TEST_F(LeaderOfAgents, KillsNobodyOnASecondSigterm) {
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
  obey_stop(2, 2);

  explain(1, 0, code(7), "x");

  expect_end(7);
  EXPECT_EQ(begun.size(), 1U);
}

TEST_F(LeaderOfAgents, KeepsTheBlameOfALostNodeWhenCtrlCHastensTheStop) {
  start_two();
  lose(2);
  signal(SIGINT);

  obey_stop(1, 0);

  expect_end(75);
  EXPECT_EQ(blamed.at(0).who, "node n2");
}

TEST_F(LeaderOfAgents, StartsNoFurtherAttemptWhenAskedToStopWhileExplaining) {
  plan.max_restarts.value = 3;
  start_two();
  exit(1, 0, code(7));
  exit(1, 1, death(SIGTERM), SIGTERM);
  stopped(1);
  obey_stop(2, 2);
  ASSERT_EQ(leader().phase(), Phase::Explaining);

  signal(SIGTERM);
  explain(1, 0, code(7), "x");

  expect_end(7);
}

TEST_F(LeaderOfAgents, TakesOneSignalToManyNodesForOne) {
  start_two();
  hear(1, Interrupted{.signal = SIGINT});
  hear(2, Interrupted{.signal = SIGINT});
  signal(SIGINT);  // the leader's own, of the same Ctrl-C
  EXPECT_EQ(count<Stop>(1), 1);
  EXPECT_EQ(count<Kill>(1), 0);

  pass_time(2);
  hear(2, Interrupted{.signal = SIGINT});

  EXPECT_EQ(count<Kill>(1), 1);
}

TEST_F(LeaderOfAgents, TellsToWhichNodeASignalCame) {
  start_two();

  hear(2, Interrupted{.signal = SIGTERM});
  obey_stop(1, 0);
  obey_stop(2, 2);

  EXPECT_THAT(said, Contains(HasSubstr("SIGTERM came to n2; stopping 4 workers")));
  expect_end(143);
}

TEST_F(LeaderOfAgents, LeavesWith124WhenTheRunTakesTooLong) {
  plan.timeout_seconds.value = 100;
  start_two();
  EXPECT_EQ(leader().deadline().value(), now + std::chrono::seconds(5)) << "the reminder";
  pass_time(101);
  EXPECT_THAT(said.back(), HasSubstr("--timeout 100 s has passed; stopping 4 workers"));

  obey_stop(1, 0);
  obey_stop(2, 2);

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

  obey_stop(2, 2);

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
  signal(SIGTERM);  // the limit itself
  EXPECT_EQ(count<Stop>(1), 1);
  exit(1, 0, code(75), SIGTERM);
  exit(1, 1, code(75), SIGTERM);
  stopped(1);
  obey_stop(2, 2);

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
  obey_stop(2, 2);
  explain(1, 0, code(7), "x");

  expect_end(7);
  EXPECT_FALSE(leader().is_cancelled());
}

TEST_F(LeaderOfAgents, CountsAttemptsFromWhereAnEarlierTurnHasEnded) {
  plan.max_restarts.value = 1;
  first_attempt = 4;
  start_two();
  EXPECT_EQ(begun.at(0).assembly.attempt, 4);
  fail_attempt(7, "x");
  EXPECT_EQ(blamed.at(0).attempt, 4);
  EXPECT_EQ(blamed.at(0).max_restarts, 5);
  EXPECT_THAT(said.back(), HasSubstr("attempt 5 begins: restart 1 of 1"));

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
  plan.way.value = plan::Way::Task;
  start_two();
  hear(1, Started{.attempt = 0});
  lose(1);  // it becomes a worker
  EXPECT_FALSE(leader().is_over());

  hear(2, Started{.attempt = 0});

  expect_end(0);
  EXPECT_THAT(said, Not(Contains(HasSubstr("lost"))));
}

TEST_F(LeaderOfAgents, FailsWhenATaskIsLostBeforeItHasStarted) {
  plan.way.value = plan::Way::Task;
  start_two();
  hear(1, Started{.attempt = 0});

  lose(2);

  expect_end(75);
  EXPECT_EQ(said.back(), "error: node n2 is lost: its connection is closed");
}

}  // namespace
}  // namespace lockstep::agent
