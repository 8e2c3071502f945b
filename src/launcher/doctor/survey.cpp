// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/survey.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <utility>

#include "common/base/clock.h"
#include "common/os/signals.h"
#include "launcher/doctor/questions.h"
#include "launcher/supervisor/protocol/rendezvous.h"
#include "lockstep/error.h"

// A survey uses the control plane of lockstep run with a small part of its protocol:
//
//   survey                                agent (one per node, started by one srun)
//     | <---- Join (addresses, probe port) ----|   gather()
//     | ---- Ask clock ----------------------> |   measure_clocks(), one node after the other
//     | <---- Answered ------------------------|
//     | ---- Probe (targets) ----------------> |   try_networks(), all nodes at once
//     | <---- Probed --------------------------|
//     | ---- Ask facts, Ask gid -------------> |   ask(), all nodes at once
//     | <---- Answered ------------------------|
//     | ---- Prepare ------------------------> |   find_port(), one node
//     | <---- Prepared or Refused -------------|
//     | ---- Release ------------------------> |   finish()
//
// One thread: messages are taken only inside wait(). The set of agents therefore changes only
// there, and a loop over agents_ that does not call wait() is safe. Answers carry no number of
// their question, so there is at most one open question per agent.
namespace lockstep::doctor {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

// kTurn bounds how late wait() notices the end of srun, which is not a message.
constexpr milliseconds kTurn(50);
constexpr milliseconds kTrialTime(10'000);  // the first round takes one second, the second four
constexpr milliseconds kPortTime(5000);
constexpr milliseconds kClockTime(2000);
constexpr milliseconds kLeaveTime(2000);
constexpr int kClockRounds = 5;

// Throws in the initializer list of Survey, before a socket exists.
supervisor::ControlKeys keys_if_any() {
  if (!supervisor::has_control_plane()) {
    throw Error(ExitCode::Unavailable, "cannot query several nodes: built without ZeroMQ CURVE")
        .hint("install libzmq3-dev and rebuild lockstep");
  }
  return supervisor::make_keys();
}

}  // namespace

// The tasks that the job requested are ignored: a survey needs one agent per node, and a job with
// an odd number of tasks would otherwise be rejected by make_plan() before it can be examined.
plan::LaunchPlan plan_of_survey(plan::HostEnvironment here, const std::string& source) {
  if (here.job) {
    here.job->asked_tasks_per_node.reset();
    here.job->asked_tasks.reset();
  }
  plan::Request request;
  request.program = {"true"};
  request.nproc_per_node = plan::OptionValue{.text = "1", .source = source, .flag = ""};
  return plan::make_plan(request, here);
}

// The handlers are empty: the descriptors only end the wait of the reactor. wait() reads the
// messages itself.
Survey::Survey(const plan::LaunchPlan& plan, const os::Environment& environment)
    : plan_(plan),
      environment_(environment),
      keys_(keys_if_any()),
      server_(std::make_unique<supervisor::ControlServer>(keys_, 0)),
      starter_(reactor_, [this](const std::string& line) { words_.push_back(line); }) {
  for (const int fd : server_->fds()) {
    reactor_.watch(fd, os::Reactor::For::Read, [] {});
  }
}

// The reactor must not refer to descriptors of the server, which is destroyed before it.
Survey::~Survey() {
  for (const int fd : server_->fds()) {
    reactor_.forget(fd);
  }
}

// The agents get the public key of the server and their own key pair. The secret key of the server
// is removed from what srun passes on: it must not be in the environment of processes on other
// nodes.
std::string Survey::gather(milliseconds patience) {
  supervisor::RendezvousPoint point;
  point.endpoints = supervisor::own_endpoints(server_->port());
  point.keys = keys_;
  point.keys.server_secret.clear();
  starter_.start(plan_, point, environment_);
  std::optional<std::string> dead;
  wait(patience, [&] {
    dead = dead ? dead : find_dead_starter();
    return agents_.size() == plan_.nodes.size() || dead;
  });
  return dead.value_or("");
}

// srun runs until its last task ends, so any end before finish() means that agents could not be
// started or were killed.
std::optional<std::string> Survey::find_dead_starter() {
  for (const supervisor::AgentStarter::Ended& ended : starter_.take_ended()) {
    return fmt::format("{} {}{}{}",
                       ended.what,
                       ended.status.signal != 0
                           ? "was killed by " + os::signal_name(ended.status.signal)
                           : fmt::format("exited with code {}", ended.status.code),
                       ended.last_line.empty() ? "" : ": ",
                       ended.last_line);
  }
  return std::nullopt;
}

// "srun: error: Task launch for StepId=4.0 failed on node n2: Communication connection failure"
std::vector<std::string> Survey::unreachable() const {
  std::vector<std::string> names;
  for (const plan::PlannedNode& node : plan_.nodes) {
    const std::string mark = " failed on node " + node.name + ":";
    if (std::any_of(words_.begin(), words_.end(), [&mark](const std::string& line) {
          return line.find(mark) != std::string::npos;
        })) {
      names.push_back(node.name);
    }
  }
  return names;
}

std::vector<int> Survey::present() const {
  std::vector<int> nodes;
  for (const auto& [node, agent] : agents_) {
    nodes.push_back(node);
  }
  return nodes;
}

std::vector<std::string> Survey::missing() const {
  std::vector<std::string> names;
  for (size_t node = 0; node < plan_.nodes.size(); ++node) {
    if (!agents_.contains(static_cast<int>(node))) {
      names.push_back(plan_.nodes[node].name);
    }
  }
  return names;
}

// ---- queries ----

plan::NetworkChoice Survey::try_networks(std::span<const std::string> allowed) {
  std::vector<supervisor::NetworkTrials::Participant> nodes;
  for (const auto& [node, agent] : agents_) {
    nodes.push_back({.offer = {agent.offer.name, agent.offer.machine, agent.offer.addresses},
                     .probe_port = agent.offer.probe_port});
  }
  trials_.begin(std::move(nodes), allowed);
  run_trials(kTrialTime);
  plan::NetworkChoice choice = trials_.choose();
  if (!choice.network && trials_.begin_again()) {
    run_trials(kTrialTime);
    choice = trials_.choose();
  }
  return choice;
}

void Survey::run_trials(milliseconds patience) {
  if (!trials_.has_candidates()) {
    return;
  }
  int slot = 0;
  for (auto& [node, agent] : agents_) {
    agent.probed.reset();
    send(node, trials_.probe_for(slot++));
  }
  wait(patience, [this] {
    return std::all_of(agents_.begin(), agents_.end(), [](const auto& entry) {
      return entry.second.probed.has_value();
    });
  });
  for (const auto& [node, agent] : agents_) {
    if (agent.probed) {
      trials_.take(*agent.probed);
    }
  }
}

// The agent checks the wanted port and finds a free one in any case; the reply proves that both
// were free on that node at that moment.
int Survey::find_port(int node, const std::string& wanted_host, int wanted_port) {
  send(node,
       supervisor::Prepare{
           .attempt = 0, .ports = 1, .wanted_host = wanted_host, .wanted_port = wanted_port});
  const auto find = [this, node]() -> const Agent* {
    const auto found = agents_.find(node);
    return found == agents_.end() ? nullptr : &found->second;
  };
  wait(kPortTime, [&find] {
    const Agent* agent = find();
    return agent == nullptr || agent->prepared || agent->refused;
  });
  const Agent* agent = find();
  if (agent != nullptr && agent->refused) {
    throw Error(static_cast<ExitCode>(agent->refused->code),
                fmt::format("on {}: {}", agent->offer.name, agent->refused->text));
  }
  if (agent == nullptr || !agent->prepared || agent->prepared->ports.empty()) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot reserve a port on {}: no answer",
                            plan_.nodes.at(static_cast<size_t>(node)).name));
  }
  return wanted_port != 0 ? wanted_port : agent->prepared->ports.front();
}

// The error of one measurement is at most half of its round trip, so the fastest one is used.
//
// As in NTP: the remote time is assumed to be read in the middle of the round trip. Wall clocks are
// used on both sides, because that is the clock of the timestamps to compare.
//
//   before |------ request ------> theirs ------ reply ------>| after
//   offset = theirs - (before + after) / 2,  error <= (after - before) / 2
std::map<int, ClockOffset> Survey::measure_clocks() {
  std::map<int, ClockOffset> offsets;
  for (const int node : present()) {
    ClockOffset best{.seconds = 0, .precision = std::numeric_limits<double>::max()};
    for (int round = 0; round < kClockRounds && agents_.contains(node); ++round) {
      agents_.at(node).answer.reset();
      const double before = wall_time();
      send(node, supervisor::Ask{clock_question()});
      wait(kClockTime,
           [this, node] { return !agents_.contains(node) || agents_.at(node).answer.has_value(); });
      const double after = wall_time();
      if (!agents_.contains(node) || !agents_.at(node).answer) {
        break;
      }
      const auto theirs = find_clock(*agents_.at(node).answer);
      if (theirs && (after - before) / 2 < best.precision) {
        best = {.seconds = *theirs - (before + after) / 2, .precision = (after - before) / 2};
      }
    }
    if (best.precision < std::numeric_limits<double>::max()) {
      offsets[node] = best;
    }
  }
  return offsets;
}

std::map<int, std::string> Survey::ask(const std::function<std::string(int)>& question,
                                       milliseconds patience) {
  for (auto& [node, agent] : agents_) {
    agent.answer.reset();
    send(node, supervisor::Ask{question(node)});
  }
  wait(patience, [this] {
    return std::all_of(agents_.begin(), agents_.end(), [](const auto& entry) {
      return entry.second.answer.has_value();
    });
  });
  std::map<int, std::string> answers;
  for (const auto& [node, agent] : agents_) {
    if (agent.answer) {
      answers[node] = *agent.answer;
    }
  }
  return answers;
}

// Agents leave within milliseconds. kill() is for those that do not, for example on a node that has
// just failed; otherwise srun would keep the step of the job open.
void Survey::finish() {
  for (const auto& [node, agent] : agents_) {
    send(node, supervisor::Release{});
  }
  wait(kLeaveTime, [this] {
    find_dead_starter();
    return agents_.empty() && starter_.is_empty();
  });
  starter_.kill();
}

// ---- messages ----

void Survey::send(int node, const supervisor::Command& command) {
  server_->send(agents_.at(node).peer, supervisor::encode(command));
}

void Survey::wait(milliseconds patience, const std::function<bool()>& is_done) {
  const auto until = Clock::now() + patience;
  // ZeroMQ sockets are edge-triggered: a send can consume the wake-up of a message that has just
  // arrived. So the queue is always read before the reactor waits.
  for (take_news(); !is_done() && Clock::now() < until; take_news()) {
    const auto left = duration_cast<milliseconds>(until - Clock::now()) + milliseconds(1);
    reactor_.turn(std::min(kTurn, left));
  }
}

void Survey::take_news() {
  while (const auto news = server_->poll()) {
    if (news->kind == supervisor::ControlServer::News::Kind::Message) {
      take_message(news->peer, news->text);
    } else if (news->kind == supervisor::ControlServer::News::Kind::Closed) {
      std::erase_if(agents_, [&](const auto& entry) { return entry.second.peer == news->peer; });
    }
  }
}

// The first agent of a node wins. A second Join of the same node is ignored: srun never restarts a
// task, so it would be a stray agent.
void Survey::take_message(const std::string& peer, const std::string& text) {
  const supervisor::Report report = supervisor::decode_report(text);
  if (const auto* join = std::get_if<supervisor::Join>(&report)) {
    const int node = join->node.value_or(-1);
    if (node >= 0 && node < static_cast<int>(plan_.nodes.size()) && !agents_.contains(node)) {
      agents_[node] = {
          .peer = peer, .offer = *join, .probed = {}, .prepared = {}, .refused = {}, .answer = {}};
    }
    return;
  }
  const auto found = std::find_if(agents_.begin(), agents_.end(), [&peer](const auto& entry) {
    return entry.second.peer == peer;
  });
  if (found == agents_.end()) {
    return;
  }
  Agent& from = found->second;
  if (const auto* probed = std::get_if<supervisor::Probed>(&report)) {
    from.probed = *probed;
  } else if (const auto* prepared = std::get_if<supervisor::Prepared>(&report)) {
    from.prepared = *prepared;
  } else if (const auto* refused = std::get_if<supervisor::Refused>(&report)) {
    from.refused = *refused;
  } else if (const auto* answered = std::get_if<supervisor::Answered>(&report)) {
    from.answer = answered->text;
  }
}

}  // namespace lockstep::doctor
