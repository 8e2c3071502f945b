// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "agent/horovod_store.h"
#include "agent/line_sink.h"
#include "agent/messages.h"
#include "agent/reachability.h"
#include "agent/sampler.h"
#include "agent/worker_group.h"
#include "os/environment.h"
#include "os/reactor.h"
#include "os/socket.h"

namespace lockstep::agent {

// What the leader orders, done on this node; what happens here, reported. One per node. One thread.
class NodeAgent {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    os::Environment environment;
    bool only_orders = false;       // Way::Task: keep the order, start nothing
    uint64_t descriptor_limit = 0;  // for the workers
    // Answers questions about this node; may take its time, in which nothing else is done.
    std::function<std::string(const std::string&)> answer = {};
  };

  // Reports may be sent while obey(), take_news() and turns of the reactor run.
  NodeAgent(Options options,
            os::Reactor& reactor,
            LineSink& sink,
            std::function<void(const Report&)> report);
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;
  ~NodeAgent();

  // What this node has; the caller adds what it knows of the place. With a secret others may try
  // whether they reach this node.
  Join offer(const std::optional<ProbeSecret>& secret);

  void obey(const Order& order);

  // The workers here have got this signal from somebody else just now.
  void note_told(int signal);

  // The leader is lost: nothing that runs here has a purpose any more.
  void abandon();

  // After every turn of the reactor.
  void take_news();
  std::optional<Clock::time_point> deadline() const;

  // Whether processes of an attempt may still be here, and it makes sense to wait for their end.
  bool is_busy() const;
  const std::optional<Release>& release() const { return release_; }
  const std::optional<plan::NodeOrder>& order() const { return order_; }

 private:
  void on(const Probe& probe);
  void on(const Prepare& prepare);
  void on(const Start& start);
  void on(const Stop& stop);
  void on(const Kill& kill);
  void on(const Pass& pass);
  void on(const Explain& explain);
  void on(const Credit& credit);
  void on(const Release& release);
  void on(const Ask& ask);
  bool was_told(int signal) const;
  void watch_node();
  void take_samples();
  void stop_sampling();

  Options options_;
  os::Reactor& reactor_;
  LineSink& sink_;
  std::function<void(const Report&)> report_;
  std::optional<ProbeSecret> secret_;
  std::unique_ptr<ProbeListener> listener_;
  std::unique_ptr<Prober> prober_;
  int probe_round_ = 0;
  std::vector<os::ReservedPort> ports_;
  std::unique_ptr<HorovodStore> horovod_;
  std::unique_ptr<WorkerGroup> group_;
  std::unique_ptr<Sampler> sampler_;
  int sampled_node_ = -1;
  std::optional<plan::NodeOrder> order_;
  std::optional<Release> release_;
  std::optional<Clock::time_point> give_up_;  // what cannot be killed by then never will be
  std::map<int, Clock::time_point> told_;
  std::optional<Clock::time_point> stop_at_;
  double grace_seconds_ = 0;
};

}  // namespace lockstep::agent
