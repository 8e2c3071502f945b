// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "common/base/text.h"
#include "launcher/supervisor/leader/leader.h"

namespace lockstep::supervisor {

inline os::ExitStatus code(int number) {
  return {.code = number, .signal = 0};
}
inline os::ExitStatus death(int signal) {
  return {.code = 0, .signal = signal};
}

// A leader with agents and a clock that the test controls. Agents are numbers; agent 10 runs on
// n10, has the address 10.0.0.10 and two workers.
class LeaderOfAgents : public ::testing::Test {
 protected:
  LeaderOfAgents() {
    plan.mode.value = plan::LaunchMode::Peers;
    plan.grace_seconds.value = 5;
    plan.start_timeout_seconds.value = 60;
    plan.last_call_seconds.value = 10;
    plan.max_restarts.value = 0;
    set_nodes(2, 2);
  }

  void set_nodes(int minimum, int maximum) {
    plan.nodes.resize(static_cast<size_t>(maximum));
    plan.min_nodes.value = minimum;
    for (plan::PlannedNode& node : plan.nodes) {
      node.workers.value = 2;
    }
  }

  // ---- input ----

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

  void join(int agent, std::optional<int> node = {}, int sort_key = 0) {
    Join one = offer(agent);
    one.node = node;
    one.sort_key = sort_key;
    hear(agent, one);
  }

  void lose(int agent) {
    leader().lose(agent, "connection closed", now);
    collect();
  }

  void pass_time(double seconds) {
    now +=
        std::chrono::duration_cast<Leader::Clock::duration>(std::chrono::duration<double>(seconds));
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

  // Proceeds to the start of the workers. Probing is skipped after an attempt with the same agents.
  void bring_up(const std::vector<int>& agents) {
    for (const int agent : agents) {
      if (leader().phase() == Leader::Phase::Probing) {
        answer_probe(agent);
      }
    }
    for (const int agent : agents) {
      answer_prepare(agent);
    }
    ASSERT_EQ(leader().phase(), Leader::Phase::Running);
  }

  void start_two() {
    join(1, 0);
    join(2, 1);
    bring_up({1, 2});
  }

  void exit(int agent, int rank, os::ExitStatus status, int sent = 0) {
    exit(agent, ProcessId::worker(rank), status, sent);
  }
  void exit(int agent, ProcessId process, os::ExitStatus status, int sent = 0) {
    hear(agent,
         Exited{.attempt = leader().attempt(), .process = process, .status = status, .sent = sent});
  }

  void stopped(int agent) { hear(agent, Stopped{.attempt = leader().attempt(), .left_behind = 0}); }

  // The two workers of the agent, from `first` on, end after Stop.
  void report_stop(int agent, int first) {
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
    hear(agent, Explained{.process = ProcessId::worker(rank), .failure = to_json(failure)});
  }

  // Rank 0 of agent 1 fails, all workers stop, and agent 1 sends the failure report.
  void fail_attempt(int with_code, const std::string& last_line) {
    exit(1, 0, code(with_code));
    exit(1, 1, death(SIGTERM), SIGTERM);
    stopped(1);
    report_stop(2, 2);
    explain(1, 0, code(with_code), last_line);
  }

  // ---- output ----

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
        commands[send.agent].push_back(send.command);
      }
    }
  }

  template <typename Kind>
  std::optional<Kind> last(int agent) {
    for (auto command = commands[agent].rbegin(); command != commands[agent].rend(); ++command) {
      if (const auto* found = std::get_if<Kind>(&*command)) {
        return *found;
      }
    }
    return std::nullopt;
  }

  template <typename Kind>
  int count(int agent) {
    return static_cast<int>(
        std::count_if(commands[agent].begin(), commands[agent].end(), [](const Command& command) {
          return std::holds_alternative<Kind>(command);
        }));
  }

  std::vector<std::string> slots() const {
    std::vector<std::string> names;
    for (const plan::NodeSlot& slot : begun.back().layout.slots) {
      names.push_back(slot.name);
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
  std::map<int, std::vector<Command>> commands;
  int first_attempt = 0;

 private:
  std::optional<Leader> leader_;
};

}  // namespace lockstep::supervisor
