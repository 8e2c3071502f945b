// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/plan/node_spec.h"
#include "launcher/plan/plan.h"
#include "launcher/supervisor/failure/failure.h"
#include "launcher/supervisor/leader/attempt_outcome.h"
#include "launcher/supervisor/leader/restart_policy.h"
#include "launcher/supervisor/leader/roster.h"
#include "launcher/supervisor/protocol/messages.h"
#include "launcher/supervisor/protocol/network_trials.h"

namespace lockstep::supervisor {

// ---- actions that the caller of a Leader executes, in this order ----

struct Send {
  int agent = 0;
  Command command;
};

// A line for the user.
struct Say {
  std::string text;
};

// The failure of the run or of one attempt. The caller prints it and writes failure.json.
struct Blame {
  Failure failure;
};

// Starts an attempt: the caller sends every agent the Start message of its slot. It builds the
// messages one by one, because those of a large run would take much memory together.
struct Begin {
  plan::AttemptLayout layout;
  std::vector<int> agents;  // agents[slot]
};

using Action = std::variant<Send, Say, Blame, Begin>;

// The state machine that coordinates a run: it collects the nodes, assigns ranks, detects failures
// and decides on restarts. It does no I/O and has no clock: reports and times go in, actions come
// out. The same code therefore leads one node without a network, four nodes, and the hundred
// thousand simulated ranks of simulate.h. The caller chooses the numbers that identify agents.
//
//   Gathering --> Probing --> Preparing --> Running --> Stopping --> Explaining --> Over
//                    ^            ^                                      |
//                    +------------+----------- next attempt -------------+
//
//   Gathering   agents join, until all nodes are here or (elastic runs) the last call has passed
//   Probing     agents try to reach each other on every common network; skipped on one node, and
//               in an attempt with the same agents as the one before
//   Preparing   agents reserve ports
//   Running     the workers run; without a failure the run goes from here to Over.
//               A worker that lost a peer exits with code 75, often before the exit of that peer
//               is reported. The Leader then waits a moment for an exit that explains more.
//   Stopping    after the first failure, a signal or the loss of a node: waits for every Stopped
//   Explaining  the agent of the failed worker is asked for the failure report
//
// Invariants:
// - Agents report and execute commands; only the Leader decides. A run therefore has one verdict.
// - A report names its attempt (Probed: its round). One that belongs to an earlier attempt was
//   still in transit when that attempt ended, and is ignored.
// - The first report of an agent is Join. Other reports of an unknown agent are ignored: its
//   sender was rejected, or is lost already.
//
// The Roster knows the agents and their slots, the AttemptOutcome why an attempt ended.
//
// Not thread-safe.
class Leader {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  enum class Phase { Gathering, Probing, Preparing, Running, Stopping, Explaining, Over };

  // The plan must outlive the Leader. `first_attempt` is the number of the first attempt.
  Leader(const plan::LaunchPlan& plan, Time now, int first_attempt = 0);

  // ---- input ----
  void take(int agent, const Report& report, Time now);
  // The connection of the agent is closed, or its heartbeat timed out.
  void lose(int agent, const std::string& why, Time now);
  // A request to stop: SIGINT, SIGTERM ... If the workers are being stopped already, SIGINT and
  // SIGQUIT kill them immediately.
  void stop(int signal, const std::string& why, Time now);
  // The time limit of the job is near: the workers get this grace period to save a checkpoint and
  // exit. No attempt follows.
  void stop_at_limit(double grace_seconds, const std::string& why, Time now);
  void kill(const std::string& why);
  // A signal for the workers: SIGUSR1, SIGUSR2.
  void pass(int signal);
  // Ends the run with an error message.
  void fail(int code, const std::string& text);
  void tick(Time now);

  // The step of the newest checkpoint in the run directory. The caller sets it before it passes on
  // a Stopped report, because the end of an attempt is judged there.
  void set_progress(long long progress) { progress_ = progress; }

  // ---- output ----
  std::vector<Action> take_actions();
  std::optional<Time> deadline() const;

  Phase phase() const { return phase_; }
  bool is_over() const { return phase_ == Phase::Over; }
  int exit_code() const { return exit_code_; }
  // Whether the run was asked to stop before anything failed.
  bool is_cancelled() const { return stop_.is_requested; }
  int attempt() const { return layout_.attempt; }
  const plan::AttemptLayout& layout() const { return layout_; }
  int agents() const { return roster_.size(); }

 private:
  using Agent = Roster::Agent;

  // Requests to stop the run. They outlive an attempt.
  struct StopState {
    bool is_requested = false;  // before anything failed
    bool is_timed_out = false;  // by --timeout
    bool is_last_attempt = false;
    std::optional<Time> last;               // time of the last request
    std::optional<Time> reported_by_agent;  // of a request that only an agent has received yet
  };

  struct Deadlines {
    std::optional<Time> phase;
    std::optional<Time> last_call;
    std::optional<Time> reminder;
    std::optional<Time> cause;  // of the wait for the exit that explains a failure
  };

  void on(int agent, const Join& join, Time now);
  void on(int agent, const Probed& probed, Time now);
  void on(int agent, const Prepared& prepared, Time now);
  void on(int agent, const Started& started, Time now);
  void on(int agent, const Refused& refused, Time now);
  void on(int agent, const Exited& exited, Time now);
  void on(int agent, const Stopped& stopped, Time now);
  void on(int agent, const Explained& explained, Time now);
  void on(int agent, const Said& said, Time now);
  void on(int agent, const Interrupted& interrupted, Time now);
  void on(int /*agent*/, const Answered& /*answered*/, Time /*now*/) {}    // a run never sends Ask
  void on(int /*agent*/, const Recorded& /*recorded*/, Time /*now*/) {}    // written by the caller
  void on(int /*agent*/, const Unwritten& /*unwritten*/, Time /*now*/) {}  // printed by the caller

  void gather(Time now);
  void begin_attempt(Time now);
  void probe(Time now);
  void choose(Time now);
  void prepare();
  void start(Time now);
  void stop_after_failure(Time now);
  void stop_workers(const std::string& why, double grace_seconds, bool is_asked);
  void stop_running(const std::string& why, double grace_seconds, bool is_asked, Time now);
  void end_attempt(Time now);
  void judge(const Failure& failure, Time now);
  RestartPolicy::Answer may_try_again(const Failure& failure) const;
  void try_again(const std::string& why, Time now);
  void finish(int code);
  void finish_stopped();
  void begin_stop_at_limit(Time now);
  void lose_idle(const Agent& gone, const std::string& why);
  void stop_after_loss(const Agent& gone, const std::string& why, Time now);
  void remind(Time now);

  Failure failure_without_report(ProcessId process) const;
  std::optional<int> find_agent_to_explain() const;
  bool is_elastic() const;
  void send(int agent, Command command);
  void say(std::string text);
  template <typename Kind>
  void send_to_slots(const Kind& command);

  const plan::LaunchPlan& plan_;
  Phase phase_ = Phase::Gathering;
  Roster roster_;
  plan::AttemptLayout layout_;
  NetworkTrials trials_;
  AttemptOutcome outcome_;
  StopState stop_;
  Deadlines deadlines_;
  RestartPolicy restarts_;
  int first_attempt_ = 0;
  long long progress_ = 0;
  int exit_code_ = 0;
  Time began_;
  std::vector<Action> actions_;
};

}  // namespace lockstep::supervisor
