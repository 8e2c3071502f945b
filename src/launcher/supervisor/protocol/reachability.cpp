// SPDX-License-Identifier: Apache-2.0
//
// State of a probe (Flight):
//
//   connecting --writable--> nonce and tag sent --readable--> answer complete --> success or fault
//       |   ^                         |
//       |   +-- once, after timeout/2 |
//       +--------- timeout -----------+--> "no answer"
//
// The trial covers what a collective needs later: a TCP connection in this direction, over this
// pair of addresses, to the right process. Another run or another program on the port cannot
// compute the tag.
#include "launcher/supervisor/protocol/reachability.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "launcher/supervisor/protocol/secrets.h"

namespace lockstep::supervisor {
namespace {

using Nonce = std::array<uint8_t, kProbeNonceBytes>;
using Tag = std::array<uint8_t, kProbeTagBytes>;

constexpr const char* kStrange = "another program answers";
constexpr const char* kSilent = "no answer";
constexpr uint64_t kListening = 0;

// Part of every tag, so that a probe that is sent back does not count as its answer.
enum class Purpose : uint8_t { Probe = 1, Answer = 2 };

Tag tag_of(const ProbeSecret& secret, Purpose purpose, std::span<const uint8_t> nonce) {
  std::array<uint8_t, 1 + kProbeNonceBytes> message{static_cast<uint8_t>(purpose)};
  std::copy(nonce.begin(), nonce.end(), message.begin() + 1);
  const auto whole = make_tag(secret, message);
  Tag tag{};
  std::copy_n(whole.begin(), tag.size(), tag.begin());
  return tag;
}

std::string describe_fault(int error) {
  switch (error) {
    case ECONNREFUSED:
      return "refused";
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EINVAL:  // from a loopback address to another machine
      return "no route";
    case ETIMEDOUT:
      return kSilent;
    case ECONNRESET:
    case EPIPE:
      return kStrange;
    default:
      return std::generic_category().message(error);
  }
}

// The target is not at fault: this process cannot open another socket at the moment.
bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

// The kernel holds a connection back until its first bytes arrive (TCP_DEFER_ACCEPT), so a prober
// costs one wake-up and usually no entry in pending_.
ProbeListener::ProbeListener(const ProbeSecret& secret)
    : secret_(secret), listener_(os::listen_everywhere()) {
  ready_.add(listener_.socket, os::ReadySet::For::Read, kListening);
}

// Tokens grow and all connections have the same patience, so pending_ is sorted by deadline.
void ProbeListener::take(ProbeClock::time_point now) {
  for (const uint64_t token : ready_.ready()) {
    if (token == kListening) {
      accept_some(now);
      continue;
    }
    const auto pending = pending_.find(token);
    if (pending != pending_.end() && is_finished_with(pending->second)) {
      pending_.erase(pending);
    }
  }
  while (!pending_.empty() && pending_.begin()->second.deadline <= now) {
    pending_.erase(pending_.begin());
  }
}

// Accepts a limited number per turn, so that a flood does not block the event loop.
void ProbeListener::accept_some(ProbeClock::time_point now) {
  constexpr int kAtATime = 64;
  for (int i = 0; i < kAtATime; ++i) {
    std::optional<os::Fd> socket = os::find_connection(listener_.socket);
    if (!socket) {
      return;
    }
    PendingProbe pending{.socket = std::move(*socket), .deadline = now + kPatience};
    if (is_finished_with(pending)) {
      continue;
    }
    if (pending_.size() == kMaxPending) {
      pending_.erase(pending_.begin());
    }
    const auto entry = pending_.emplace(next_token_++, std::move(pending)).first;
    ready_.add(entry->second.socket, os::ReadySet::For::Read, entry->first);
  }
}

// An invalid tag gets no answer at all: a stranger learns nothing about the run.
bool ProbeListener::is_finished_with(PendingProbe& pending) const {
  const auto got = os::receive_some(pending.socket, std::span(pending.said).subspan(pending.count));
  if (!got) {
    return true;
  }
  pending.count += *got;
  if (pending.count < kProbeBytes) {
    return false;
  }
  const auto nonce = std::span<const uint8_t>(pending.said).first(kProbeNonceBytes);
  const auto tag = std::span<const uint8_t>(pending.said).last(kProbeTagBytes);
  if (is_same_tag(tag, tag_of(secret_, Purpose::Probe, nonce))) {
    // If the answer does not fit into the socket buffer, the probe times out at the peer.
    os::send_at_once(pending.socket, tag_of(secret_, Purpose::Answer, nonce));
  }
  return true;
}

std::optional<ProbeClock::time_point> ProbeListener::next_deadline() const {
  return pending_.empty() ? std::nullopt : std::optional(pending_.begin()->second.deadline);
}

Prober::Prober(const ProbeSecret& secret,
               int from,
               std::vector<Target> targets,
               const ProberOptions& options)
    : secret_(secret), targets_(std::move(targets)), options_(options) {
  trials_.reserve(targets_.size());
  for (const Target& target : targets_) {
    trials_.push_back(
        {.from = from, .to = target.to, .network = target.network, .fault = "not tried"});
  }
  start_more(ProbeClock::now());
}

void Prober::take(ProbeClock::time_point now) {
  for (const uint64_t token : ready_.ready()) {
    const auto target = static_cast<size_t>(token);
    const auto flight = flights_.find(target);
    if (flight == flights_.end()) {
      continue;
    }
    if (const auto fault = find_end(target, flight->second)) {
      end(target, *fault, now);
    }
  }
  end_overdue(now);
  start_more(now);
}

// max_at_once bounds the descriptors of this process and the backlog of the listeners: there is
// one probe per pair of nodes and network.
void Prober::start_more(ProbeClock::time_point now) {
  while (next_ < targets_.size() && flights_.size() < options_.max_at_once) {
    Flight flight;
    flight.started = now;
    const int fault = launch(next_, flight);
    if (is_shortage(fault) && !flights_.empty()) {
      return;  // retried when one of them has ended
    }
    const size_t target = next_++;
    flights_.emplace(target, std::move(flight));
    if (fault != 0) {
      end(target, describe_fault(fault), now);
    }
  }
}

// Returns an errno, or 0 if the connection was started.
int Prober::launch(size_t target, Flight& flight) {
  const Target& wanted = targets_[target];
  os::Connecting started =
      os::start_connect({.from = wanted.source, .to = wanted.address, .port = wanted.port});
  flight.socket = std::move(started.socket);
  if (started.fault == 0) {
    ready_.add(flight.socket, os::ReadySet::For::Write, target);
  }
  return started.fault;
}

// Continues a probe whose socket is ready. Returns its fault, empty for success, or nothing if it
// has not ended.
std::optional<std::string> Prober::find_end(size_t target, Flight& flight) {
  if (!flight.is_connected) {
    return send_probe(target, flight);
  }
  const auto got = os::receive_some(flight.socket, std::span(flight.answer).subspan(flight.count));
  if (!got) {
    return kStrange;
  }
  flight.count += *got;
  if (flight.count < flight.answer.size()) {
    return std::nullopt;
  }
  return is_same_tag(flight.answer, tag_of(secret_, Purpose::Answer, flight.nonce)) ? "" : kStrange;
}

// The nonce is new for every connection, so that a recorded answer cannot be replayed.
std::optional<std::string> Prober::send_probe(size_t target, Flight& flight) {
  if (const int fault = os::connect_fault(flight.socket); fault != 0) {
    return describe_fault(fault);
  }
  fill_random(flight.nonce);
  const Tag tag = tag_of(secret_, Purpose::Probe, flight.nonce);
  std::array<uint8_t, kProbeBytes> probe{};
  std::copy(flight.nonce.begin(), flight.nonce.end(), probe.begin());
  std::copy(tag.begin(), tag.end(), probe.begin() + kProbeNonceBytes);
  if (!os::send_at_once(flight.socket, probe)) {
    return kStrange;  // closed right after it was opened
  }
  flight.is_connected = true;
  ready_.change(flight.socket, os::ReadySet::For::Read, target);
  return std::nullopt;
}

// The kernel retransmits a lost SYN only after one second, which is the whole default timeout. A
// connection that is not established after half of the timeout is therefore opened again.
ProbeClock::time_point Prober::deadline_of(const Flight& flight) const {
  const bool may_try_again = !flight.is_connected && !flight.is_second_try;
  return flight.started + (may_try_again ? options_.timeout / 2 : options_.timeout);
}

// Targets are collected first, because end() erases from flights_. A second launch() replaces the
// socket; the old one is closed, which removes it from ready_. `started` stays, so that the timeout
// counts from the first try.
void Prober::end_overdue(ProbeClock::time_point now) {
  std::vector<size_t> overdue;
  for (const auto& [target, flight] : flights_) {
    if (deadline_of(flight) <= now) {
      overdue.push_back(target);
    }
  }
  for (const size_t target : overdue) {
    Flight& flight = flights_.at(target);
    if (now >= flight.started + options_.timeout) {
      end(target, kSilent, now);
      continue;
    }
    flight.is_second_try = true;
    if (const int fault = launch(target, flight); fault != 0) {
      end(target, describe_fault(fault), now);
    }
  }
}

void Prober::end(size_t target, const std::string& fault, ProbeClock::time_point now) {
  using std::chrono::milliseconds;
  const auto took = std::chrono::round<milliseconds>(now - flights_.at(target).started);
  trials_[target].fault = fault;
  trials_[target].milliseconds = static_cast<int>(took.count());
  flights_.erase(target);
}

std::optional<ProbeClock::time_point> Prober::next_deadline() const {
  std::optional<ProbeClock::time_point> next;
  for (const auto& [target, flight] : flights_) {
    const auto deadline = deadline_of(flight);
    next = std::min(next.value_or(deadline), deadline);
  }
  return next;
}

}  // namespace lockstep::supervisor
