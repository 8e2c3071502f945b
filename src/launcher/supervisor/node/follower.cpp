// SPDX-License-Identifier: Apache-2.0
//
// The event loop of an agent:
//
//   connect_to_leader() --> Join --> [ turn: signals, commands, agent ] --> Release --> exit code
//         |                                  |                  --> leader lost: kill, 75
//         +-- 69 after `patience`            +-- SIGQUIT: kill, exit at once
//
// An agent must never outlive its run. Three things end it: Release, the loss of the connection,
// and the loss of the process that started it (starter_fd). A worker never survives its agent,
// because the guard kills all descendants.
#include "launcher/supervisor/node/follower.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "common/os/pipe.h"
#include "launcher/supervisor/node/placement.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr int64_t kMaxInTransit = int64_t{4} << 20;
// Time for one rendezvous, with the handshakes of all its addresses. Within it the source is read
// again every kAskAgain, because a file can be left over from a leader that was killed.
constexpr milliseconds kTryTime(10000);
constexpr milliseconds kAskAgain(1000);
constexpr milliseconds kLookAgain(50);
constexpr milliseconds kLongestWait(1000);

}  // namespace

// ---- output ----

// Drops instead of waiting: a worker must never block on a slow console of another machine. The
// limit is checked before, not after the addition, so one message may exceed it.
void Forwarder::take_lines(int rank, Stream stream, std::string_view lines) {
  if (on_the_way_ > kMaxInTransit) {
    dropped_lines_ += std::count(lines.begin(), lines.end(), '\n');
    dropped_bytes_ += static_cast<int64_t>(lines.size());
    return;
  }
  report_dropped();
  on_the_way_ += static_cast<int64_t>(lines.size());
  send_(Said{.rank = rank, .stream = stream, .is_status = false, .text = std::string(lines)});
}

void Forwarder::take_status(int rank, std::string_view text) {
  if (on_the_way_ < kMaxInTransit) {
    on_the_way_ += static_cast<int64_t>(text.size());
    send_(Said{.rank = rank, .stream = Stream::Out, .is_status = true, .text = std::string(text)});
  }
}

// Half of the window as hysteresis: a message for each gap of a few lines would be worse than the
// gap.
void Forwarder::add_credit(int64_t bytes) {
  on_the_way_ -= bytes;
  if (on_the_way_ < kMaxInTransit / 2) {
    report_dropped();
  }
}

void Forwarder::report_dropped() {
  if (dropped_lines_ > 0) {
    const std::string text =
        fmt::format("{} lines ({}) not shown: too much output at once; the log files are complete",
                    dropped_lines_,
                    format_bytes(static_cast<uint64_t>(dropped_bytes_)));
    dropped_lines_ = dropped_bytes_ = 0;
    on_the_way_ += static_cast<int64_t>(text.size());
    send_(Said{.rank = -1, .stream = Stream::Err, .is_status = false, .text = text});
  }
}

// ---- the agent ----

Follower::Follower(Options options, os::Environment environment)
    : options_(std::move(options)),
      environment_(std::move(environment)),
      signals_({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGUSR1, SIGUSR2}),
      forwarder_([this](const Report& report) { send(report); }),
      agent_({.environment = environment_,
              .only_stores_spec = options_.only_stores_spec,
              .descriptor_limit = options_.descriptor_limit,
              .answer = options_.answer},
             reactor_,
             forwarder_,
             [this](const Report& report) { send(report); }) {
  reactor_.watch(signals_.fd(), os::Reactor::For::Read, [] {});
}

Follower::~Follower() {
  for (const int fd : watched_) {
    reactor_.forget(fd);
  }
}

void Follower::watch_control() {
  for (const int fd : watched_) {
    reactor_.forget(fd);
  }
  watched_ = client_->fds();
  for (const int fd : watched_) {
    reactor_.watch(fd, os::Reactor::For::Read, [] {});
  }
}

// Only Connected counts. Before it, the leader does not know this agent and sends nothing.
bool Follower::is_answered() {
  while (const auto news = client_->poll()) {
    if (news->kind == ControlClient::News::Kind::Connected) {
      return true;
    }
  }
  return false;
}

bool Follower::try_rendezvous(const RendezvousPoint& point) {
  client_ = std::make_unique<ControlClient>(point.keys, point.endpoints);
  watch_control();
  const auto until = Clock::now() + kTryTime;
  auto ask_again = Clock::now() + kAskAgain;
  while (Clock::now() < until && !stopped_by_) {
    reactor_.turn(duration_cast<milliseconds>(ask_again - Clock::now()) + milliseconds(1));
    take_signals();
    if (is_answered()) {
      watch_control();
      secret_ = probe_secret(point.keys);
      options_.node = options_.node ? options_.node : point.node;
      return true;
    }
    if (Clock::now() >= ask_again) {
      ask_again = Clock::now() + kAskAgain;
      if (options_.find_rendezvous() != point) {
        break;  // the file was left by an earlier leader and has been replaced
      }
    }
  }
  for (const int fd : std::exchange(watched_, {})) {
    reactor_.forget(fd);
  }
  client_.reset();
  return false;
}

void Follower::connect_to_leader() {
  const auto began = Clock::now();
  const auto until = began + duration_cast<Clock::duration>(options_.patience);
  bool was_found = false;
  while (Clock::now() < until && !stopped_by_ && !is_orphan()) {
    const auto point = options_.find_rendezvous();
    was_found = was_found || point.has_value();
    if (point && try_rendezvous(*point)) {
      return;
    }
    reactor_.turn(kLookAgain);
    take_signals();
  }
  if (stopped_by_) {
    return;
  }
  throw Error(ExitCode::Unavailable, "cannot find the leader of this run")
      .fact("tried", options_.what_is_tried)
      .fact("found", was_found ? "a leader that does not answer" : "no leader")
      .fact("waited", format_duration(options_.patience.count()));
}

// From here on a signal is only read from the descriptor. The mask stays blocked after the
// destructor, so that a late SIGTERM cannot replace the exit code that the leader has decided.
int Follower::run() {
  signals_.keep_blocked();
  connect_to_leader();
  if (stopped_by_) {
    return 128 + *stopped_by_;
  }
  Join join = agent_.offer(secret_);
  keep_addresses(join, options_.local_addr);
  join.node = options_.node;
  join.sort_key = options_.sort_key;
  join.workers = options_.count_workers ? options_.count_workers(join) : 0;
  join.fault = options_.fault;
  join.fault_code = options_.fault_code;
  has_joined_ = true;
  send(join);
  // The descriptors of ZeroMQ are edge-triggered, and send() may have consumed the edge of a
  // message that is already here. Without this read, the first command would be noticed only after
  // a full wait.
  take_control_news();
  while (!is_lost_ && !stopped_by_ && !(agent_.release() && !agent_.is_busy())) {
    const auto deadline = agent_.deadline();
    const auto left = deadline
                          ? duration_cast<milliseconds>(*deadline - Clock::now()) + milliseconds(1)
                          : kLongestWait;
    reactor_.turn(std::clamp(left, milliseconds(0), kLongestWait));
    take_signals();
    take_control_news();
    agent_.take_news();
    take_control_news();  // take_news() sends reports; see above
    is_lost_ = is_lost_ || is_orphan();
  }
  if (stopped_by_) {
    agent_.abandon();
    return 128 + *stopped_by_;
  }
  if (is_lost_ && !agent_.release()) {
    agent_.abandon();
    throw Error(ExitCode::TryAgain, "lost the leader of this run; killed the workers of this node")
        .fact("found", "the connection is closed", "control plane");
  }
  const Release& release = *agent_.release();
  if (!release.text.empty()) {
    throw Error(static_cast<ExitCode>(release.code), release.text);
  }
  return release.code;
}

// Polled in every turn, at the latest after kLongestWait. Not watched by the reactor: standard
// output can be a file, which epoll rejects.
bool Follower::is_orphan() const {
  return options_.starter_fd >= 0 && !os::has_reader(options_.starter_fd);
}

// Before the agent has joined, a signal simply ends it. Later it is a matter of the whole run and
// goes to the leader, which answers with Stop. SIGQUIT is the exception: the kernel sends it when
// the guard has died, and nothing would clean up after this process.
void Follower::take_signals() {
  while (const auto arrival = signals_.find_arrival()) {
    const int signal = arrival->number;
    if (signal == SIGCHLD) {
      continue;
    }
    const SignalClassifier::Meaning meaning = signal_classifier_.read(*arrival, Clock::now());
    if (meaning == SignalClassifier::Meaning::Direct) {
      agent_.note_signalled(signal);
    }
    if (meaning == SignalClassifier::Meaning::Again) {
      continue;
    }
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      agent_.execute(Pass{.signal = signal});
    } else if (!has_joined_ || signal == SIGQUIT) {
      stopped_by_ = signal;  // no leader yet, or SIGQUIT: exit at once
    } else {
      send(Interrupted{.signal = signal});
    }
  }
}

// An Error of decode_command() ends the agent: leader and agent have the same protocol version, so
// an invalid command means that the connection cannot be trusted.
void Follower::take_control_news() {
  while (auto news = client_->poll()) {
    if (news->kind == ControlClient::News::Kind::Closed) {
      is_lost_ = true;
    } else if (news->kind == ControlClient::News::Kind::Message) {
      const Command command = decode_command(news->text);
      if (const auto* credit = std::get_if<Credit>(&command)) {
        forwarder_.add_credit(credit->bytes);
      } else {
        agent_.execute(command);
      }
    }
  }
}

void Follower::send(const Report& report) {
  if (client_) {
    client_->send(encode(report));
  }
}

}  // namespace lockstep::supervisor
