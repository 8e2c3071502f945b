// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/display.h"
#include "agent/failure.h"
#include "agent/verdict.h"
#include "agent/worker.h"
#include "os/environment.h"
#include "os/pipe.h"
#include "os/process.h"
#include "os/signals.h"
#include "plan/plan.h"

namespace lockstep::agent {

// What an agent needs to know to run one attempt of its node's workers.
struct Attempt {
  plan::LaunchPlan plan;
  int node = 0;
  int number = 0;
  std::string executable;
  os::Environment environment;  // the agent's own
  bool by_seed = false;         // start one process and let it fork the workers
};

struct Outcome {
  int exit_code = 0;
  std::optional<Failure> failure;
};

// Starts the workers of one node, listens to them, and stops all of them when one fails or a signal
// asks for it. None of their processes is left when run() returns or throws. One thread.
class Supervisor {
 public:
  Supervisor(const Attempt& attempt, os::SignalFd& signals, Display& display);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  Outcome run();

 private:
  using Clock = std::chrono::steady_clock;

  void start_workers();
  void start_seed();

  // One turn of the loop: waits for news, then takes signals, output and exits in that order.
  // True when a worker has said something, or closed a stream.
  bool turn(std::optional<std::chrono::milliseconds> timeout);
  void take_signals();
  bool take_output(std::span<const os::Watch> watches);
  void take_handover();
  void take_exits();
  void take_seed_exit();
  void drain();

  void stop_all(const std::string& why);
  void kill_all();
  void announce(const std::string& text);

  bool is_running() const;
  bool has_open_streams() const;
  std::optional<std::chrono::milliseconds> time_to_deadline() const;
  std::string prefix_of(const Worker& worker) const;
  Failure make_failure(int rank) const;

  const Attempt& attempt_;
  os::SignalFd& signals_;
  Display& display_;
  std::vector<Worker> workers_;
  Verdict verdict_;
  std::map<int, os::ExitStatus> statuses_;
  std::optional<Clock::time_point> deadline_;  // when the grace ends
  std::optional<os::Child> seed_;
  int seed_pid_ = 0;
  os::Fd handover_;
  std::string handover_text_;
  std::optional<int64_t> oom_kills_before_;
};

}  // namespace lockstep::agent
