// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/contract/run_directory.h"
#include "common/os/environment.h"
#include "common/os/reactor.h"
#include "common/os/signals.h"
#include "launcher/plan/plan.h"
#include "launcher/supervisor/console/display.h"
#include "launcher/supervisor/leader/agent_starter.h"
#include "launcher/supervisor/leader/leader.h"
#include "launcher/supervisor/leader/record_writer.h"
#include "launcher/supervisor/leader/requeue.h"
#include "launcher/supervisor/leader/run_reporter.h"
#include "launcher/supervisor/node/node_agent.h"
#include "launcher/supervisor/protocol/control.h"
#include "launcher/supervisor/protocol/rendezvous.h"
#include "launcher/supervisor/protocol/signal_classifier.h"

namespace lockstep::supervisor {

// The event loop of the process that leads a run. It owns everything around the Leader: signals,
// the control plane, the agent of this node, the starter of other agents, the display and the run
// directory. One thread. It waits in the reactor, with three exceptions: squeue and scontrol of
// a requeue (Requeue), and kill_all_children() at the end of an attempt, up to 5 s.
//
//   signals, lockstep cancel ----------------+
//   NodeAgent of this node --> reports_ -----+--> Leader --> act(): messages to agents, lines for
//   ControlServer --> reports_, Said --------+                      the user, failure.json
//
// Lines of output (Said) go to the display directly and are acknowledged with Credit; Recorded and
// Unwritten are handled here as well. All other reports go through reports_ to the Leader, in their
// order of arrival. Agents are numbered: 0 is the agent of this node, others get the next number
// with their first message.
//
// Lifetime: the plan and the environment must outlive the `RunSupervisor`. run() is called once.
class RunSupervisor {
 public:
  struct Options {
    bool has_local_agent = true;      // this node runs workers too
    std::optional<ControlKeys> keys;  // keys of the control plane; absent: no other node can join
    int port = 0;                     // of the control plane; 0: a free port
    bool only_stores_spec = false;    // LaunchMode::Task
    uint64_t descriptor_limit = 0;    // for the workers; 0: the limit of this process
  };

  RunSupervisor(const plan::LaunchPlan& plan,
                const os::Environment& environment,
                const Options& options);
  RunSupervisor(const RunSupervisor&) = delete;
  RunSupervisor& operator=(const RunSupervisor&) = delete;
  ~RunSupervisor();

  // Addresses and keys for the agents of other nodes. Requires Options::keys.
  RendezvousPoint rendezvous_point() const;

  // Runs until all workers have ended and all output is written. Returns the exit code of the run.
  int run();

  // LaunchMode::Task: the spec of this node. Requires Options::has_local_agent.
  const std::optional<plan::NodeSpec>& spec() const { return local_->spec(); }

 private:
  using Clock = std::chrono::steady_clock;

  void turn();
  std::optional<std::chrono::milliseconds> time_to_wait() const;
  void take_signals();
  void take_signal(int signal, bool is_slurms);
  void handle_limit_signal(int signal);
  void note_cancel();
  void settle();
  bool take_control_news();
  void take_message(const std::string& peer, const std::string& text);
  std::optional<Report> find_report(const std::string& peer, const std::string& text);
  void lose(const std::string& peer, const std::string& why);
  void take_starters();
  void take_reports();
  void keep_house();
  void take_cancel(Clock::time_point now);
  void act();
  void act_on(const Send& send);
  void act_on(const Say& say);
  void act_on(const Blame& blame);
  void act_on(const Begin& begin);
  void announce(const plan::AttemptLayout& layout);
  void write_state();
  void finish();
  void end_turn();
  bool is_finished() const;
  void watch_control();

  const plan::LaunchPlan& plan_;
  const os::Environment& environment_;
  Options options_;
  contract::RunDirectory directory_;
  os::SignalFd signals_;
  SignalClassifier signal_classifier_;
  os::Reactor reactor_;
  Display display_;
  std::optional<ControlKeys> keys_;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<NodeAgent> local_;
  AgentStarter starter_;
  Leader leader_;
  WriteFaults write_faults_;
  RecordWriter record_writer_;
  std::optional<Requeue> requeue_;
  std::deque<std::pair<int, Report>> reports_;
  std::map<std::string, int> numbers_;  // number of each agent, by its routing id in ZeroMQ
  std::map<int, std::string> peers_;    // the inverse; an entry stays until the agent disconnects
  int next_number_ = 1;
  int shown_rejections_ = 0;
  bool has_more_news_ = false;  // the control plane was not read to its end
  Clock::time_point next_house_keeping_;
  RunReporter reporter_;
  std::optional<Clock::time_point> kill_time_;  // end of the grace period of lockstep cancel
  bool has_directory_ = false;
};

}  // namespace lockstep::supervisor
