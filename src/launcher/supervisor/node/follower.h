// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/os/environment.h"
#include "common/os/reactor.h"
#include "common/os/signals.h"
#include "launcher/supervisor/console/line_sink.h"
#include "launcher/supervisor/node/node_agent.h"
#include "launcher/supervisor/protocol/control.h"
#include "launcher/supervisor/protocol/rendezvous.h"
#include "launcher/supervisor/protocol/signal_classifier.h"

namespace lockstep::supervisor {

// Sends the output of workers to the leader with flow control: at most 4 MiB are in transit, and
// the leader acknowledges (Credit) what it has shown. Lines beyond this are counted and dropped;
// the log files contain them.
class Forwarder : public LineSink {
 public:
  explicit Forwarder(std::function<void(const Report&)> send) : send_(std::move(send)) {}

  void take_lines(int rank, Stream stream, std::string_view lines) override;
  void take_status(int rank, std::string_view text) override;
  void add_credit(int64_t bytes);

 private:
  void report_dropped();

  std::function<void(const Report&)> send_;
  int64_t on_the_way_ = 0;
  int64_t dropped_lines_ = 0;
  int64_t dropped_bytes_ = 0;
};

// The event loop of an agent whose leader is another process. Not thread-safe.
class Follower {
 public:
  struct Options {
    // Finds the leader; nothing if it is not known yet. Called again while the leader does not
    // answer.
    std::function<std::optional<RendezvousPoint>()> find_rendezvous;
    std::string what_is_tried;  // for the error message if there is no leader
    std::chrono::duration<double> patience{60};
    std::optional<int> node;
    int sort_key = 0;
    std::function<int(const Join&)> count_workers;  // 0: the number in the plan of the leader
    std::string local_addr;  // the only address to offer to other nodes; empty: all
    bool only_stores_spec = false;
    uint64_t descriptor_limit = 0;  // for the workers; 0: the limit of this process
    std::string fault;  // not empty: this node cannot run the program; the leader reports it
    int fault_code = 0;
    // A pipe to ssh or srun. The agent stops if its reader has gone; -1: none.
    int starter_fd = -1;
    std::function<std::string(const std::string&)> answer = {};  // to questions about this node
  };

  Follower(Options options, os::Environment environment);
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower();

  // Runs until the leader releases this agent, and returns the exit code from the leader. Throws an
  // Error (69) if no leader is found, (75) if the leader is lost, and one with the text of the
  // leader if it rejects this agent.
  int run();

  const std::optional<plan::NodeSpec>& spec() const { return agent_.spec(); }

 private:
  using Clock = std::chrono::steady_clock;

  void connect_to_leader();
  bool try_rendezvous(const RendezvousPoint& point);
  bool is_answered();
  bool is_orphan() const;
  void take_signals();
  void take_control_news();
  void watch_control();
  void send(const Report& report);

  Options options_;
  os::Environment environment_;
  os::SignalFd signals_;
  SignalClassifier signal_classifier_;
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

}  // namespace lockstep::supervisor
