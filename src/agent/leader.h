// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agent/failure.h"
#include "agent/messages.h"
#include "agent/network_trials.h"
#include "agent/restart_policy.h"
#include "agent/verdict.h"
#include "plan/order.h"
#include "plan/plan.h"

namespace lockstep::agent {

// ---- what a leader wants done ----

struct Send {
  int agent = 0;
  Order order;
};

// A line for the user.
struct Say {
  std::string text;
};

// The reason why the run, or one attempt of it, failed: to be shown and kept.
struct Blame {
  Failure failure;
};

// An attempt begins: each of these agents gets the order of its seat. One at a time, because the
// orders of a large gang are many.
struct Begin {
  plan::Assembly assembly;
  std::vector<int> agents;  // by seat
};

using Action = std::variant<Send, Say, Blame, Begin>;

// Decides what a gang of agents does: pure, so that it is the same for four nodes, for one without
// a network, and for a hundred thousand simulated ranks. Agents are numbers that the caller gives.
//
// The way of a run: agents join; they try which network connects them all; they reserve ports;
// their workers start; the first failure, a signal or a lost agent stops all of them; another
// attempt begins, or the run is over. Agents only report and obey, so there is one verdict.
class Leader {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  enum class Phase { Gathering, Probing, Preparing, Running, Stopping, Explaining, Over };

  // The plan must outlive the Leader. Attempts are counted from `first_attempt` on.
  Leader(const plan::LaunchPlan& plan, Time now, int first_attempt = 0);

  // ---- news ----
  void take(int agent, const Report& report, Time now);
  // The agent is gone: its connection is closed, or it was silent for too long.
  void lose(int agent, const std::string& why, Time now);
  // Somebody asks to stop: SIGINT, SIGTERM ...; a second time: kill at once.
  void stop(int signal, const std::string& why, Time now);
  // The time of the run is nearly over: workers may take so long to save and leave, and no attempt
  // follows.
  void stop_at_limit(double grace_seconds, const std::string& why, Time now);
  void kill(const std::string& why);
  // A signal for the workers: SIGUSR1, SIGUSR2.
  void pass(int signal);
  // The run cannot go on, and the user must know why.
  void fail(int code, const std::string& text);
  void tick(Time now);

  // How far the workers have come, as the run directory shows it; grows with progress. Told before
  // the end of an attempt is judged.
  void set_progress(long long progress) { progress_ = progress; }

  // ---- what follows ----
  std::vector<Action> take_actions();
  std::optional<Time> deadline() const;

  Phase phase() const { return phase_; }
  bool is_over() const { return phase_ == Phase::Over; }
  int exit_code() const { return exit_code_; }
  // Whether somebody asked to stop before anything failed.
  bool is_cancelled() const { return is_user_stop_; }
  int attempt() const { return assembly_.attempt; }
  const plan::Assembly& assembly() const { return assembly_; }
  int agents() const { return static_cast<int>(agents_.size()); }

 private:
  struct Agent {
    Join offer;
    int node = -1;  // of the plan
    int seat = -1;  // of this attempt; -1: waits for the next
    bool has_probed = false;
    bool is_prepared = false;
    bool is_stopped = false;
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
  void on(int /*agent*/, const Answered& /*answered*/, Time /*now*/) {}  // a run asks nothing
  void on(int /*agent*/, const Recorded& /*recorded*/, Time /*now*/) {}  // whoever hears it writes
  void on(int /*agent*/, const Unwritten& /*unwritten*/, Time /*now*/) {}  // or tells

  std::string find_objection(const Join& join) const;
  void gather(Time now);
  void begin_attempt(Time now);
  int count_workers(const Agent& agent) const;
  void take_seats();
  void probe(Time now);
  void choose(Time now);
  void prepare();
  void start(Time now);
  void stop_workers(const std::string& why, double grace_seconds, bool is_asked);
  void stop_running(const std::string& why, double grace_seconds, bool is_asked, Time now);
  void end_attempt(Time now);
  void judge(const Failure& failure, Time now);
  RestartPolicy::Answer may_try_again(const Failure& failure) const;
  void try_again(const std::string& why, Time now);
  void finish(int code);
  void finish_stopped();
  void take_limit(Time now);
  void lose_idle(const Agent& gone, const std::string& why);
  void blame_loss(const Agent& gone, const std::string& why);
  void stop_after_loss(const Agent& gone, const std::string& why, Time now);
  void remind(Time now);

  Failure failure_of_loss() const;
  std::vector<StoppedWorkers> count_stopped(const Failure& failure) const;
  Failure failure_without_words(int rank) const;
  std::string describe_missing() const;
  int seat_of_rank(int rank) const;
  int agent_of_seat(int seat) const;
  int agent_to_explain() const;
  std::string names_without(bool Agent::*flag) const;
  bool is_elastic() const;
  // Sets the flag of one seated agent; true when it was the last that all waited for.
  bool mark(Agent& agent, bool Agent::*flag);
  // From now on all seated agents are waited for that have not set the flag.
  void wait_for_all(bool Agent::*flag);
  void send(int agent, Order order);
  void say(std::string text);
  template <typename Kind>
  void send_seated(const Kind& order);

  const plan::LaunchPlan& plan_;
  Phase phase_ = Phase::Gathering;
  std::map<int, Agent> agents_;
  std::set<int> taken_nodes_;  // of the plan
  int waiting_ = 0;            // for so many agents before the next phase
  plan::Assembly assembly_;
  std::vector<int> first_ranks_ = {0};  // per seat, and at the end the size of the world
  NetworkTrials trials_;
  std::vector<std::string> seated_before_;  // the seats for which the network was chosen
  Verdict verdict_;
  std::map<int, os::ExitStatus> statuses_;
  std::set<int> sent_to_;            // ranks that ended after we had sent them a signal
  std::optional<std::string> lost_;  // the node whose loss is the cause
  std::string lost_why_;
  bool is_user_stop_ = false;
  bool is_timed_out_ = false;
  bool is_last_attempt_ = false;
  std::optional<Time> last_stop_;      // when somebody last asked to stop
  std::optional<Time> told_by_agent_;  // when an agent did, and not yet we ourselves
  RestartPolicy restarts_;
  int first_attempt_ = 0;
  long long progress_ = 0;
  int exit_code_ = 0;
  Time began_;
  Time attempt_began_;
  Time failed_at_;  // when the verdict fell
  std::optional<Time> next_reminder_;
  std::optional<Time> last_call_;
  std::optional<Time> limit_;  // of the phase
  std::vector<Action> actions_;
};

}  // namespace lockstep::agent
