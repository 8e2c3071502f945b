// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/os/probe_socket.h"
#include "launcher/plan/network.h"
#include "launcher/supervisor/protocol/messages.h"

// Network probes: tests which nodes reach each other. They are authenticated with a secret of the
// run, so an answer proves that the right process was reached over the right pair of addresses.
//
//   probe:  nonce (16 bytes), tag of (1, nonce) (16 bytes)
//   answer: tag of (2, nonce) (16 bytes)
//
// A tag is the keyed hash of its arguments, cut to 16 bytes. Neither class blocks or starts a
// thread: the caller watches fd() for reading, and calls take() when it is readable or
// next_deadline() has passed.
namespace lockstep::supervisor {

using ProbeClock = std::chrono::steady_clock;

// Known only to the agents of one run.
using ProbeSecret = std::array<uint8_t, 32>;

inline constexpr size_t kProbeNonceBytes = 16;
inline constexpr size_t kProbeTagBytes = 16;
inline constexpr size_t kProbeBytes = kProbeNonceBytes + kProbeTagBytes;

// Answers the probes of the agents of this run, on all addresses of this machine.
//
// A connection is closed if it sends something else, or nothing for kPatience. At most kMaxPending
// connections are open.
class ProbeListener {
 public:
  explicit ProbeListener(const ProbeSecret& secret);

  static constexpr size_t kMaxPending = 64;
  static constexpr std::chrono::seconds kPatience{2};

  void take(ProbeClock::time_point now = ProbeClock::now());

  int port() const { return listener_.port; }
  int fd() const { return ready_.fd(); }
  std::optional<ProbeClock::time_point> next_deadline() const;

  // Connections that have not sent a complete probe yet.
  size_t pending() const { return pending_.size(); }

 private:
  struct PendingProbe {
    os::Fd socket;
    ProbeClock::time_point deadline;
    std::array<uint8_t, kProbeBytes> said{};
    size_t count = 0;
  };

  void accept_some(ProbeClock::time_point now);
  bool is_finished_with(PendingProbe& pending) const;

  ProbeSecret secret_;
  os::Listener listener_;
  os::ReadySet ready_;
  std::map<uint64_t, PendingProbe> pending_;  // the oldest first
  uint64_t next_token_ = 1;
};

struct ProberOptions {
  // Timeout of a probe. The connection is opened again after half of it, in case the first packet
  // was lost.
  std::chrono::milliseconds timeout{1000};
  size_t max_at_once = 256;
};

// Tries to reach all targets in parallel.
class Prober {
 public:
  Prober(const ProbeSecret& secret,
         int from,
         std::vector<Target> targets,
         const ProberOptions& options = {});

  void take(ProbeClock::time_point now = ProbeClock::now());

  int fd() const { return ready_.fd(); }
  std::optional<ProbeClock::time_point> next_deadline() const;

  bool is_done() const { return flights_.empty() && next_ == targets_.size(); }

  // One per target, in their order. Unfinished ones have the fault "not tried".
  const std::vector<plan::Trial>& trials() const { return trials_; }

 private:
  // A probe in progress.
  struct Flight {
    os::Fd socket;
    ProbeClock::time_point started;
    bool is_second_try = false;
    bool is_connected = false;
    std::array<uint8_t, kProbeNonceBytes> nonce{};
    std::array<uint8_t, kProbeTagBytes> answer{};
    size_t count = 0;
  };

  void start_more(ProbeClock::time_point now);
  int launch(size_t target, Flight& flight);
  std::optional<std::string> find_end(size_t target, Flight& flight);
  std::optional<std::string> send_probe(size_t target, Flight& flight);
  void end_overdue(ProbeClock::time_point now);
  void end(size_t target, const std::string& fault, ProbeClock::time_point now);
  ProbeClock::time_point deadline_of(const Flight& flight) const;

  ProbeSecret secret_;
  std::vector<Target> targets_;
  ProberOptions options_;
  os::ReadySet ready_;
  size_t next_ = 0;
  std::map<size_t, Flight> flights_;  // by target
  std::vector<plan::Trial> trials_;
};

}  // namespace lockstep::supervisor
