// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/arrival.h"
#include "agent/control.h"
#include "agent/display.h"
#include "agent/leader.h"
#include "agent/meeting.h"
#include "agent/node_agent.h"
#include "agent/records.h"
#include "agent/requeue.h"
#include "agent/run_reporter.h"
#include "agent/starter.h"
#include "contract/run_directory.h"
#include "os/environment.h"
#include "os/reactor.h"
#include "os/signals.h"
#include "plan/plan.h"

namespace lockstep::agent {

// A run as its leader sees it: hears the agents, lets the Leader decide, does what it decides, and
// shows the user what comes of it. One thread.
class Gang {
 public:
  struct Options {
    bool has_local_agent = true;      // this node runs workers too
    std::optional<ControlKeys> keys;  // other nodes may join with these
    int port = 0;                     // where they join; 0: a free one
    bool only_orders = false;         // Way::Task
    uint64_t descriptor_limit = 0;    // for the workers; 0: as ours
  };

  Gang(const plan::LaunchPlan& plan, const os::Environment& environment, const Options& options);
  Gang(const Gang&) = delete;
  Gang& operator=(const Gang&) = delete;
  ~Gang();

  // Where others may join.
  MeetingPoint meeting_point() const;

  // To the end of the run; its exit code.
  int run();

  // Way::Task: what this node was ordered to run.
  const std::optional<plan::NodeOrder>& order() const { return local_->order(); }

 private:
  using Clock = std::chrono::steady_clock;

  void turn();
  std::optional<std::chrono::milliseconds> time_to_wait() const;
  void take_signals();
  void take_signal(int signal, bool is_slurms);
  void take_limit(int signal);
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
  void announce(const plan::Assembly& assembly);
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
  Arrivals arrivals_;
  os::Reactor reactor_;
  Display display_;
  std::optional<ControlKeys> keys_;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<NodeAgent> local_;
  Starter starter_;
  Leader leader_;
  WriteFaults write_faults_;
  Records records_;
  std::optional<Requeue> requeue_;
  std::deque<std::pair<int, Report>> reports_;
  std::map<std::string, int> numbers_;  // of agents by their name on the wire
  std::map<int, std::string> peers_;
  int next_number_ = 1;
  int shown_rejections_ = 0;
  bool has_more_news_ = false;
  Clock::time_point next_house_keeping_;
  RunReporter reporter_;
  std::optional<Clock::time_point> kill_time_;  // the end of a grace that lockstep cancel gave
  bool has_directory_ = false;
};

}  // namespace lockstep::agent
