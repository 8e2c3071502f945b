// SPDX-License-Identifier: Apache-2.0
//
// Input of a `RunSupervisor` from the agents of other nodes, and from srun and ssh, which start
// them.
#include <fmt/format.h>

#include "launcher/supervisor/leader/run_supervisor.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

constexpr int kMaxShownRejections = 5;
constexpr int kMaxMessagesAtOnce = 1000;  // then signals and local workers get a turn

}  // namespace

// Reads the control plane until it is empty or kMaxMessagesAtOnce is reached. False if nothing was
// there.
bool RunSupervisor::take_control_news() {
  int taken = 0;
  for (; server_ && taken < kMaxMessagesAtOnce; ++taken) {
    const auto news = server_->poll();
    if (!news) {
      break;
    }
    switch (news->kind) {
      case ControlServer::News::Kind::Message:
        take_message(news->peer, news->text);
        break;
      case ControlServer::News::Kind::Closed:
        lose(news->peer, news->text);
        break;
      case ControlServer::News::Kind::Rejected:
        if (++shown_rejections_ <= kMaxShownRejections) {
          display_.say(fmt::format(
              "rejected a connection from {}: it does not have the keys of this run", news->text));
        }
        break;
    }
  }
  has_more_news_ = taken == kMaxMessagesAtOnce;
  return taken > 0;
}

// The reports that the agent sent before are handled first: the exit of a worker that it reported
// is a better explanation than the loss of its connection. numbers_ is cleared at once, so that a
// second Closed has no effect; peers_ is kept until the Leader has reacted.
void RunSupervisor::lose(const std::string& peer, const std::string& why) {
  const auto found = numbers_.find(peer);
  if (found == numbers_.end()) {
    return;
  }
  const int number = found->second;
  numbers_.erase(found);
  take_reports();
  leader_.lose(number, why, Clock::now());
  act();
  peers_.erase(number);
}

// Credit is sent as soon as the display has the lines, not when the reader of the terminal has seen
// them: Display drops what does not fit, so its buffer bounds the memory.
void RunSupervisor::take_message(const std::string& peer, const std::string& text) {
  auto found = numbers_.find(peer);
  if (found == numbers_.end()) {
    found = numbers_.emplace(peer, next_number_++).first;
    peers_.emplace(found->second, peer);
  }
  const std::optional<Report> report = find_report(peer, text);
  if (!report) {
    return;
  }
  const auto* said = std::get_if<Said>(&*report);
  if (said == nullptr) {
    reports_.emplace_back(found->second, *report);
    return;
  }
  if (said->rank < 0) {
    display_.say(said->text);
  } else if (said->is_status) {
    display_.take_status(said->rank, said->text);
  } else {
    display_.take_lines(said->rank, said->stream, said->text);
  }
  server_->send(peer, encode(Command(Credit{static_cast<int64_t>(said->text.size())})));
}

// An agent whose message cannot be decoded is treated as lost, and receives Release.
std::optional<Report> RunSupervisor::find_report(const std::string& peer, const std::string& text) {
  try {
    return decode_report(text);
  } catch (const Error& error) {
    lose(peer, fmt::format("it sent an invalid message ({})", error.what()));
    server_->send(peer,
                  encode(Command(Release{.code = static_cast<int>(ExitCode::TryAgain),
                                         .text = "the leader received an invalid message"})));
    return std::nullopt;
  }
}

// An exit of srun or ssh matters in Gathering only. Later the control plane reports the loss.
void RunSupervisor::take_starters() {
  for (const AgentStarter::Ended& ended : starter_.take_ended()) {
    if (leader_.phase() != Leader::Phase::Gathering) {
      continue;
    }
    const std::string how = fmt::format(
        "{} {}{}{}",
        ended.what,
        ended.status.signal != 0 ? "was killed by " + os::signal_name(ended.status.signal)
                                 : fmt::format("exited with code {}", ended.status.code),
        ended.last_line.empty() ? "" : ": ",
        ended.last_line);
    if (plan_.mode.value == plan::LaunchMode::Ssh && starter_.running() >= plan_.min_nodes.value) {
      display_.say(how + "; enough other nodes remain");
    } else {
      leader_.fail(static_cast<int>(ExitCode::Unavailable), "cannot start the agents: " + how);
    }
  }
}

}  // namespace lockstep::supervisor
