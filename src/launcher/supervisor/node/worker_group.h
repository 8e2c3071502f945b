// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cluster/node_sampler.h"
#include "common/cluster/oom.h"
#include "common/os/environment.h"
#include "common/os/fd.h"
#include "common/os/process.h"
#include "common/os/reactor.h"
#include "launcher/plan/node_spec.h"
#include "launcher/supervisor/console/line_sink.h"
#include "launcher/supervisor/failure/failure.h"
#include "launcher/supervisor/node/mps_daemon.h"
#include "launcher/supervisor/node/placement.h"
#include "launcher/supervisor/node/worker.h"
#include "launcher/supervisor/protocol/messages.h"

namespace lockstep::supervisor {

// The workers of one node in one attempt: starts them, reads their output, stops them on request.
// Makes no decisions.
//
// Reports every exit, and Stopped once when nothing is left: no process, not even a background
// process of a worker, and no unread output. Not thread-safe.
//
// Fork server: a program with the note of contract/fork_offer.h is started once per node. It
// loads its libraries, forks the workers, writes "RANK PID" lines
// to the handover pipe, and exits. The workers then become children of the agent, which is their
// subreaper. Until then their exits cannot be observed.
class WorkerGroup {
 public:
  using Clock = std::chrono::steady_clock;
  using Report = std::function<void(const supervisor::Report&)>;
  struct Options {
    plan::NodeSpec spec;
    os::Environment environment;    // of the agent
    uint64_t descriptor_limit = 0;  // for the workers
  };

  WorkerGroup(Options options, os::Reactor& reactor, LineSink& sink, Report report);
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;
  // Kills all processes that are left.
  ~WorkerGroup();

  // Throws an Error if the program cannot be started.
  void start();

  // SIGTERM, and SIGKILL after the grace period. `sends` is false if the workers have received
  // SIGTERM from Slurm already.
  void stop(double grace_seconds, bool sends);
  void kill();
  void pass(int signal);

  // After every turn of the reactor.
  void take_news();
  std::optional<Clock::time_point> deadline() const;

  // The failure report of a worker or of the fork server.
  Failure explain(ProcessId process) const;

  bool is_over() const { return is_over_; }

  // The running workers, for the sampler.
  std::vector<cluster::WatchedWorker> watched() const;

 private:
  void start_mps();
  void start_one(Worker& worker, const WorkerDevices& devices);
  void start_fork_server();
  void listen(Worker& worker);
  void watch_streams();
  void watch_exits();
  void take_handover();
  void take_fork_server_exit();
  void take_exits();
  void reap_orphans();
  ProcessId fork_server_id() const;
  void end_when_empty();
  bool is_running() const;
  bool has_open_streams() const;

  Options options_;
  os::Reactor& reactor_;
  LineSink& sink_;
  Report report_;
  std::string executable_;
  std::unique_ptr<MpsDaemon> mps_;
  std::vector<Worker> workers_;
  std::map<int, std::optional<std::string>> visible_gpus_;  // by rank
  std::map<ProcessId, os::ExitStatus> statuses_;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Clock::time_point> drain_until_;
  Clock::time_point next_reaping_;
  bool may_have_exits_ = false;
  bool is_stopping_ = false;
  bool is_over_ = false;
  bool has_reported_unwritten_ = false;
  int left_behind_ = 0;
  std::optional<os::Child> fork_server_;
  int fork_server_pid_ = 0;
  os::Fd handover_;
  std::string handover_text_;
  cluster::OomKills oom_kills_before_;
};

}  // namespace lockstep::supervisor
