// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/failure.h"
#include "agent/line_sink.h"
#include "agent/messages.h"
#include "agent/placement.h"
#include "agent/worker.h"
#include "cluster/node_sampler.h"
#include "cluster/oom.h"
#include "os/environment.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/reactor.h"
#include "plan/order.h"

namespace lockstep::agent {

// The workers of one node in one attempt: starts them, listens to them, stops them when told to.
//
// Reports each exit, and Stopped once when nothing of them is left: no process, not even one that a
// worker had sent into the background, and no unread output. Decides nothing. One thread.
class WorkerGroup {
 public:
  using Clock = std::chrono::steady_clock;
  using Report = std::function<void(const agent::Report&)>;
  struct Options {
    plan::NodeOrder order;
    os::Environment environment;    // the agent's own
    uint64_t descriptor_limit = 0;  // for the workers
  };

  WorkerGroup(Options options, os::Reactor& reactor, LineSink& sink, Report report);
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;
  // Leaves no process behind.
  ~WorkerGroup();

  // Throws an Error when the program cannot be started.
  void start();

  // SIGTERM (unless they have it already), and SIGKILL after the grace.
  void stop(double grace_seconds, bool sends);
  void kill();
  void pass(int signal);

  // After every turn of the reactor.
  void take_news();
  std::optional<Clock::time_point> deadline() const;

  // What is known of the death of a rank, or (-1) of the seed.
  Failure explain(int rank) const;

  bool is_over() const { return is_over_; }

  // The workers that run now, for whoever looks at them.
  std::vector<cluster::WatchedWorker> watched() const;

 private:
  void start_one(Worker& worker, const WorkerDevices& devices);
  void start_seed();
  void listen(Worker& worker);
  void watch_streams();
  void watch_exits();
  void take_handover();
  void take_seed_exit();
  void take_exits();
  void reap_orphans();
  void end_when_empty();
  bool is_running() const;
  bool has_open_streams() const;

  Options options_;
  os::Reactor& reactor_;
  LineSink& sink_;
  Report report_;
  std::string executable_;
  std::vector<Worker> workers_;
  std::map<int, std::optional<std::string>> visible_gpus_;  // by rank
  std::map<int, os::ExitStatus> statuses_;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Clock::time_point> drain_until_;
  Clock::time_point next_reaping_;
  bool may_have_exits_ = false;
  bool is_stopping_ = false;
  bool is_over_ = false;
  bool has_told_unwritten_ = false;
  int left_behind_ = 0;
  std::optional<os::Child> seed_;
  int seed_pid_ = 0;
  os::Fd handover_;
  std::string handover_text_;
  cluster::OomKills oom_kills_before_;
};

}  // namespace lockstep::agent
