// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/arrival.h"
#include "agent/control.h"
#include "agent/line_sink.h"
#include "agent/meeting.h"
#include "agent/node_agent.h"
#include "os/environment.h"
#include "os/reactor.h"
#include "os/signals.h"

namespace lockstep::agent {

// Sends workers' lines to the leader, never more than it has taken: what is too much for it is
// counted and left to the logs.
class Forwarder : public LineSink {
 public:
  explicit Forwarder(std::function<void(const Report&)> send) : send_(std::move(send)) {}

  void take_lines(int rank, Stream stream, std::string_view lines) override;
  void take_status(int rank, std::string_view text) override;
  void add_credit(int64_t bytes);

 private:
  void tell_dropped();

  std::function<void(const Report&)> send_;
  int64_t on_the_way_ = 0;
  int64_t dropped_lines_ = 0;
  int64_t dropped_bytes_ = 0;
};

// An agent whose leader is another process. One thread.
class Follower {
 public:
  struct Options {
    // Where the leader is; asked again while it does not answer, nothing when nobody knows yet.
    std::function<std::optional<MeetingPoint>()> find_meeting;
    std::string what_is_tried;  // for the message when it is never found
    std::chrono::duration<double> patience{60};
    std::optional<int> node;
    int order = 0;
    std::function<int(const Join&)> count_workers;  // 0: as the leader's plan says
    std::string local_addr;  // by which alone this node is to be reached; empty: by any
    bool only_orders = false;
    uint64_t descriptor_limit = 0;  // for the workers; 0: as ours
    std::string fault;  // not empty: this node cannot help, and the leader shall say why
    int fault_code = 0;
    // Read by whoever has started this agent for as long as it is wanted; -1: nobody has.
    int starter_fd = -1;
    std::function<std::string(const std::string&)> answer = {};  // to questions about this node
  };

  Follower(Options options, os::Environment environment);
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower();

  // Until the leader releases this agent; the code that it gives. Throws an Error (69) when there
  // is no leader, (75) when it is lost, and with the leader's words when it does not want this
  // agent.
  int run();

  const std::optional<plan::NodeOrder>& order() const { return agent_.order(); }

 private:
  using Clock = std::chrono::steady_clock;

  void find_leader();
  bool try_meeting(const MeetingPoint& point);
  bool is_answered();
  bool is_orphan() const;
  void take_signals();
  void take_control_news();
  void watch_control();
  void send(const Report& report);

  Options options_;
  os::Environment environment_;
  os::SignalFd signals_;
  Arrivals arrivals_;
  os::Reactor reactor_;
  Forwarder forwarder_;
  NodeAgent agent_;
  std::unique_ptr<ControlClient> client_;
  std::vector<int> watched_;
  std::optional<ProbeSecret> secret_;
  std::optional<int> stopped_by_;
  bool has_joined_ = false;
  bool is_lost_ = false;
};

}  // namespace lockstep::agent
