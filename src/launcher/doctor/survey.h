// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/os/environment.h"
#include "common/os/reactor.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/request.h"
#include "launcher/supervisor/leader/agent_starter.h"
#include "launcher/supervisor/protocol/control.h"
#include "launcher/supervisor/protocol/messages.h"
#include "launcher/supervisor/protocol/network_trials.h"

namespace lockstep::doctor {

// Launch plan of a survey: one agent per node, independent of the number of tasks of the job.
// Throws an Error if the environment allows no such plan.
plan::LaunchPlan plan_of_survey(plan::HostEnvironment here, const std::string& source);

// Clock of another node relative to ours, and the error of the measurement.
struct ClockOffset {
  double seconds = 0;
  double precision = 0;  // half of the fastest round trip

  bool operator==(const ClockOffset&) const = default;
};

// Queries the nodes of a job: starts agents like `lockstep run`, but no workers and no run
// directory. Every wait has a timeout; nodes that do not answer are missing in the results. Nodes
// are identified by their index in the plan. Not thread-safe.
class Survey {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Plan and environment must outlive the survey. Throws an Error (69) without a control plane.
  Survey(const plan::LaunchPlan& plan, const os::Environment& environment);
  Survey(const Survey&) = delete;
  Survey& operator=(const Survey&) = delete;
  ~Survey();

  // Starts the agents and waits for them. Returns the reason of a failure; empty if all agents have
  // joined or the time is over. Throws an Error (69) if srun is unavailable.
  std::string gather(Milliseconds patience);

  // Nodes on which srun reported a failed task launch. srun then also ends all other tasks.
  std::vector<std::string> unreachable() const;

  // Nodes with a connected agent, and nodes without one.
  std::vector<int> present() const;
  std::vector<std::string> missing() const;
  const supervisor::Join& offer_of(int node) const { return agents_.at(node).offer; }

  // Lets all present nodes connect to each other on every network. `allowed` restricts the
  // interfaces; empty: all. Slots are indices into present().
  plan::NetworkChoice try_networks(std::span<const std::string> allowed);
  const supervisor::NetworkTrials& trials() const { return trials_; }

  // Finds a free port of this node, or checks the wanted one (port 0: none). Throws an Error (69)
  // if the wanted port is in use or the node does not answer.
  int find_port(int node, const std::string& wanted_host, int wanted_port);

  // Measures the clocks of all present nodes.
  std::map<int, ClockOffset> measure_clocks();

  // Sends a question to each present node. Returns the answers that arrive in time.
  std::map<int, std::string> ask(const std::function<std::string(int node)>& question,
                                 Milliseconds patience);

  // Releases the agents and waits briefly for their exit.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  struct Agent {
    std::string peer;
    supervisor::Join offer;
    std::optional<supervisor::Probed> probed;
    std::optional<supervisor::Prepared> prepared;
    std::optional<supervisor::Refused> refused;
    std::optional<std::string> answer;
  };

  void send(int node, const supervisor::Command& command);
  void take_news();
  void take_message(const std::string& peer, const std::string& text);
  std::optional<std::string> find_dead_starter();
  // Handles messages until `is_done` returns true or `patience` has passed.
  void wait(Milliseconds patience, const std::function<bool()>& is_done);
  void run_trials(Milliseconds patience);

  const plan::LaunchPlan& plan_;
  const os::Environment& environment_;
  os::Reactor reactor_;
  supervisor::ControlKeys keys_;
  std::unique_ptr<supervisor::ControlServer> server_;
  supervisor::AgentStarter starter_;
  std::vector<std::string> words_;  // output lines of srun
  std::map<int, Agent> agents_;     // by node
  supervisor::NetworkTrials trials_;
};

}  // namespace lockstep::doctor
