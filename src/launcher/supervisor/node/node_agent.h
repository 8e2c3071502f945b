// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/os/environment.h"
#include "common/os/reactor.h"
#include "common/os/socket.h"
#include "launcher/supervisor/console/line_sink.h"
#include "launcher/supervisor/horovod_rendezvous/horovod_store.h"
#include "launcher/supervisor/node/sample_thread.h"
#include "launcher/supervisor/node/worker_group.h"
#include "launcher/supervisor/protocol/messages.h"
#include "launcher/supervisor/protocol/reachability.h"

namespace lockstep::supervisor {

// Executes the commands of the leader on this node, and reports events. One per node. Not
// thread-safe.
class NodeAgent {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    os::Environment environment;
    bool only_stores_spec = false;  // LaunchMode::Task: store the spec, start nothing
    uint64_t descriptor_limit = 0;  // for the workers
    // Answers Ask. Blocks the agent while it runs.
    std::function<std::string(const std::string&)> answer = {};
  };

  // `report` may be called during execute(), take_news() and turns of the reactor.
  NodeAgent(Options options,
            os::Reactor& reactor,
            LineSink& sink,
            std::function<void(const Report&)> report);
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;
  ~NodeAgent();

  // Describes this node; the caller adds its place in the run. With a secret, starts to answer the
  // probes of other nodes.
  Join offer(const std::optional<ProbeSecret>& secret);

  void execute(const Command& command);

  // The workers of this node have just received this signal from Slurm directly.
  void note_signalled(int signal);

  // The leader is lost: kills the workers.
  void abandon();

  // After every turn of the reactor.
  void take_news();
  std::optional<Clock::time_point> deadline() const;

  // Whether processes of an attempt may be left, and waiting for their end makes sense.
  bool is_busy() const;
  const std::optional<Release>& release() const { return release_; }
  const std::optional<plan::NodeSpec>& spec() const { return spec_; }

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
  bool was_signalled(int signal) const;
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
  std::unique_ptr<SampleThread> sample_thread_;
  int sampled_node_ = -1;
  std::optional<plan::NodeSpec> spec_;
  std::optional<Release> release_;
  std::optional<Clock::time_point> give_up_;  // end of the wait for killed processes
  std::map<int, Clock::time_point> signalled_;
  std::optional<Clock::time_point> stop_at_;
  double grace_seconds_ = 0;
};

}  // namespace lockstep::supervisor
