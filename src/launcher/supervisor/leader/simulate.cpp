// SPDX-License-Identifier: Apache-2.0
//
// Two processes, because the leader's CPU time and memory are measured per process:
//
//   Rehearsal (this process)          Fleet (forked)
//     Leader, ControlServer  <------>   one ControlClient per 100 agents + one for the last agent
//                             TCP, CURVE
//
//   uint32 agent, host byte order | a message of messages.h, or the text "cut" (leader -> fleet)
//
// "cut" closes the connection of the last agent, as the death of its node would. Pass, which a real
// agent forwards as a signal, ends the simulated workers.
#include "launcher/supervisor/leader/simulate.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/os/memory.h"
#include "common/os/pipe.h"
#include "common/os/process.h"
#include "common/os/reactor.h"
#include "launcher/supervisor/leader/leader.h"
#include "launcher/supervisor/protocol/control.h"
#include "launcher/supervisor/protocol/messages.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kAgentsPerConnection = 100;
constexpr size_t kHead = sizeof(uint32_t);
constexpr milliseconds kLimit(120000);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Messages carry the number of the simulated agent (uint32) before their content, because 100
// agents share a connection.
std::string address_to(int agent, const std::string& message) {
  std::string bytes(kHead, '\0');
  const auto number = static_cast<uint32_t>(agent);
  std::memcpy(bytes.data(), &number, kHead);
  return bytes + message;
}

std::pair<int, std::string_view> read_address(std::string_view bytes) {
  uint32_t number = 0;
  std::memcpy(&number, bytes.data(), std::min(kHead, bytes.size()));
  return {static_cast<int>(number), bytes.substr(std::min(kHead, bytes.size()))};
}

Join make_join(int agent, int workers) {
  Join join;
  join.name = fmt::format("node-{:05}", agent);
  join.machine = fmt::format("machine-{:05}", agent);
  join.node = agent;
  join.cores = workers;
  join.addresses = {
      {.interface = "eth0",
       .text = fmt::format("10.{}.{}.{}", agent >> 16, (agent >> 8) & 255, agent & 255),
       .prefix = 8,
       .is_v6 = false,
       .is_loopback = false,
       .speed_mbps = 25000,
       .is_rdma = false}};
  join.probe_port = 1;
  return join;
}

// ---- the process of the simulated agents ----

// Answers like an agent, but without probes, ports and processes. An agent is two numbers here: its
// first rank, and the line that it belongs to. A real agent would cost a process of its own.
class Fleet {
 public:
  Fleet(const ControlKeys& keys, int port, int nodes, int workers) : workers_(workers) {
    for (int first = 0; first < nodes; first += kAgentsPerConnection) {
      Line line;
      line.client =
          std::make_unique<ControlClient>(keys, std::vector<Endpoint>{{"127.0.0.1", port}});
      line.first = first;
      line.count = std::min(kAgentsPerConnection, nodes - first);
      lines_.push_back(std::move(line));
    }
    // The last agent has its own connection, which is cut to simulate its loss.
    if (nodes > 1) {
      --lines_.back().count;
      Line lonely;
      lonely.client =
          std::make_unique<ControlClient>(keys, std::vector<Endpoint>{{"127.0.0.1", port}});
      lonely.first = nodes - 1;
      lonely.count = 1;
      lines_.push_back(std::move(lonely));
    }
  }

  void run() {
    os::Reactor reactor;
    watch(reactor);
    while (!is_released_) {
      reactor.turn(milliseconds(100));
      for (Line& line : lines_) {
        if (!line.client) {
          continue;
        }
        while (const auto news = line.client->poll()) {
          take(line, *news);
        }
        if (line.is_cut) {
          line.client.reset();
        }
      }
      if (has_new_lines_) {
        has_new_lines_ = false;
        watch(reactor);
      }
    }
    lines_.clear();  // flushes the queued messages
  }

 private:
  struct Line {
    std::unique_ptr<ControlClient> client;
    int first = 0;
    int count = 0;
    bool is_cut = false;
  };

  void watch(os::Reactor& reactor) {
    for (const Line& line : lines_) {
      if (line.client) {
        for (const int fd : line.client->fds()) {
          reactor.watch(fd, os::Reactor::For::Read, [] {});
        }
      }
    }
  }

  void take(Line& line, const ControlClient::News& news) {
    if (news.kind == ControlClient::News::Kind::Connected) {
      has_new_lines_ = true;
      for (int agent = line.first; agent < line.first + line.count; ++agent) {
        say(line, agent, make_join(agent, workers_));
      }
    } else if (news.kind == ControlClient::News::Kind::Closed) {
      is_released_ = true;
    } else {
      const auto [agent, bytes] = read_address(news.text);
      if (bytes == "cut") {
        line.is_cut = true;
      } else {
        execute(line, agent, decode_command(bytes));
      }
    }
  }

  void execute(Line& line, int agent, const Command& command) {
    if (const auto* probe = std::get_if<Probe>(&command)) {
      Probed probed{.round = probe->round, .trials = {}};
      for (const Target& target : probe->targets) {
        probed.trials.push_back({probe->self, target.to, target.network, "", 1});
      }
      say(line, agent, probed);
    } else if (const auto* prepare = std::get_if<Prepare>(&command)) {
      Prepared prepared{.attempt = prepare->attempt, .ports = {}};
      for (int i = 0; i < prepare->ports; ++i) {
        prepared.ports.push_back(20000 + i);
      }
      say(line, agent, prepared);
    } else if (const auto* start = std::get_if<Start>(&command)) {
      started_[agent] = start->spec.first.rank;
      attempt_ = start->spec.first.attempt;
      say(line, agent, Started{.attempt = attempt_});
    } else if (std::holds_alternative<Stop>(command)) {
      for (int local = 0; local < workers_; ++local) {
        say(line,
            agent,
            Exited{.attempt = attempt_,
                   .process = ProcessId::worker(started_[agent] + local),
                   .status = {.code = 0, .signal = SIGTERM},
                   .sent = SIGTERM});
      }
      say(line, agent, Stopped{.attempt = attempt_, .left_behind = 0});
    } else if (std::holds_alternative<Pass>(command)) {
      // Simulates the end of all workers of the node.
      for (int local = 0; local < workers_; ++local) {
        say(line,
            agent,
            Exited{.attempt = attempt_,
                   .process = ProcessId::worker(started_[agent] + local),
                   .status = {},
                   .sent = 0});
      }
      say(line, agent, Stopped{.attempt = attempt_, .left_behind = 0});
    } else if (std::holds_alternative<Release>(command)) {
      is_released_ = ++released_ >= static_cast<int>(started_.size()) - 1;
    }
  }

  void say(Line& line, int agent, const Report& report) {
    if (line.client) {
      line.client->send(address_to(agent, encode(report)));
    }
  }

  int workers_;
  std::vector<Line> lines_;
  std::map<int, int> started_;
  int attempt_ = 0;
  int released_ = 0;
  bool is_released_ = false;
  bool has_new_lines_ = false;
};

// ---- the leader's process ----

plan::LaunchPlan make_simulated_plan(int nodes, int workers) {
  plan::LaunchPlan plan;
  plan.run_id = "simulated";
  plan.run_directory.value = "/simulated";
  plan.command = {"./train"};
  plan.mode.value = plan::LaunchMode::Peers;
  plan.min_nodes.value = std::max(1, nodes - 1);
  plan.start_timeout_seconds.value = 120;
  plan.last_call_seconds.value = 120;
  plan.grace_seconds.value = 30;
  plan.role.value = "default";
  plan.nodes.resize(static_cast<size_t>(nodes));
  for (plan::PlannedNode& node : plan.nodes) {
    node.workers.value = workers;
  }
  return plan;
}

// The event loop of RunSupervisor without signals, display and run directory. Probes are answered
// without a network, so the measured time is that of the leader and the control plane only.
class Rehearsal {
 public:
  Rehearsal(int nodes, int workers, const ControlKeys& keys)
      : nodes_(nodes),
        workers_(workers),
        plan_(make_simulated_plan(nodes, workers)),
        server_(keys, 0),
        leader_(plan_, Clock::now()) {
    for (const int fd : server_.fds()) {
      reactor_.watch(fd, os::Reactor::For::Read, [] {});
    }
  }

  int port() const { return server_.port(); }

  int run() {
    const int ranks = nodes_ * workers_;
    fmt::print(
        "simulating {} ranks on {} nodes: the leader, its messages, encryption and sockets are\n"
        "real; agents and workers are simulated, {} agents per connection\n\n",
        format_count(ranks),
        format_count(nodes_),
        kAgentsPerConnection);
    const uint64_t memory_before = os::resident_bytes();
    const auto begin = Clock::now();
    if (!wait_until([this] { return leader_.agents() == nodes_; })) {
      return give_up("joining");
    }
    row("joined", seconds_since(begin));
    if (!wait_until([this] { return started_ == nodes_; })) {
      return give_up("starting");
    }
    row("networks probed, ports reserved, ranks assigned", seconds_since(begin));
    const auto memory = static_cast<double>(os::peak_resident_bytes() - memory_before);
    if (nodes_ > 2) {
      const auto cut = Clock::now();
      started_ = 0;
      server_.send(peer_of(nodes_ - 1), address_to(nodes_ - 1, "cut"));
      if (!wait_until([this] { return leader_.attempt() == 1 && started_ == nodes_ - 1; })) {
        return give_up("continuing without the lost agent");
      }
      row("one agent lost: all others stopped and restarted without it", seconds_since(cut));
    }
    const auto end = Clock::now();
    leader_.pass(SIGUSR1);  // ends the simulated workers
    if (!wait_until([this] { return leader_.is_over(); })) {
      return give_up("releasing the agents");
    }
    act();
    row("all ranks ended, all agents released", seconds_since(end));
    fmt::print("\nleader: peak of {:.0f} bytes per rank, {:.2f} s of CPU time in total\n",
               memory / ranks,
               os::cpu_seconds());
    return leader_.exit_code();
  }

 private:
  static void row(const char* what, double seconds) {
    fmt::print("{:<64} {:>7.2f} s\n", what, seconds);
  }

  static int give_up(const char* what) {
    fmt::print(stderr, "lockstep: error: the simulated run timed out while {}\n", what);
    return 1;
  }

  template <typename Condition>
  bool wait_until(Condition is_met) {
    const auto until = Clock::now() + kLimit;
    while (!is_met()) {
      if (Clock::now() > until) {
        return false;
      }
      reactor_.turn(milliseconds(20));
      while (auto news = server_.poll()) {
        take(*news);
      }
      leader_.tick(Clock::now());
      act();
    }
    return true;
  }

  // A closed connection loses all agents on it. peers_ is not changed in the loop; an entry of a
  // lost agent is harmless, because the leader does not send to it any more.
  void take(const ControlServer::News& news) {
    if (news.kind == ControlServer::News::Kind::Closed) {
      for (const auto& [agent, peer] : peers_) {
        if (peers_by_number_[static_cast<size_t>(peer)] == news.peer) {
          leader_.lose(agent, news.text, Clock::now());
        }
      }
      return;
    }
    if (news.kind != ControlServer::News::Kind::Message) {
      return;
    }
    const auto [agent, bytes] = read_address(news.text);
    const Report report = decode_report(bytes);
    if (std::holds_alternative<Join>(report)) {
      auto found = std::find(peers_by_number_.begin(), peers_by_number_.end(), news.peer);
      if (found == peers_by_number_.end()) {
        found = peers_by_number_.insert(peers_by_number_.end(), news.peer);
      }
      peers_[agent] = static_cast<int>(found - peers_by_number_.begin());
    }
    started_ += std::holds_alternative<Started>(report) ? 1 : 0;
    leader_.take(agent, report, Clock::now());
    act();
  }

  const std::string& peer_of(int agent) const {
    return peers_by_number_.at(static_cast<size_t>(peers_.at(agent)));
  }

  void act() {
    for (const Action& action : leader_.take_actions()) {
      if (const auto* send = std::get_if<Send>(&action)) {
        server_.send(peer_of(send->agent), address_to(send->agent, encode(send->command)));
      } else if (const auto* begin = std::get_if<Begin>(&action)) {
        const plan::NodeSpecMaker maker(plan_, begin->layout);
        for (size_t slot = 0; slot < begin->agents.size(); ++slot) {
          const int agent = begin->agents[slot];
          server_.send(
              peer_of(agent),
              address_to(agent, encode(Command(Start{maker.spec_of(static_cast<int>(slot))}))));
        }
      }
    }
  }

  int nodes_;
  int workers_;
  plan::LaunchPlan plan_;
  os::Reactor reactor_;
  ControlServer server_;
  Leader leader_;
  std::map<int, int> peers_;  // agent -> connection
  std::vector<std::string> peers_by_number_;
  int started_ = 0;
};

}  // namespace

int simulate(int nodes, int workers) {
  const ControlKeys keys = make_keys();
  os::raise_descriptor_limit();
  // The fleet must be forked before ZeroMQ starts its threads, which a fork does not copy. It gets
  // the port, which only the leader knows, through a pipe.
  os::Pipe port = os::make_pipe();
  const int fleet_pid = os::fork_process();
  if (fleet_pid == 0) {
    os::set_parent_death_signal(SIGKILL);
    std::string text;
    while (text.find('\n') == std::string::npos &&
           os::read_some(port.out.number(), text, 64) == os::ReadResult::Some) {
    }
    Fleet(keys,
          static_cast<int>(find_integer(text.substr(0, text.find('\n'))).value_or(0)),
          nodes,
          workers)
        .run();
    os::leave(0);
  }
  os::Child fleet(fleet_pid);
  int code = 1;
  {
    Rehearsal rehearsal(nodes, workers, keys);
    os::write_all(port.in.number(), fmt::format("{}\n", rehearsal.port()));
    code = rehearsal.run();
  }
  fleet.signal(SIGKILL);
  fleet.wait();
  return code;
}

}  // namespace lockstep::supervisor
