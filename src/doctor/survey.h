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

#include "agent/control.h"
#include "agent/messages.h"
#include "agent/network_trials.h"
#include "agent/starter.h"
#include "os/environment.h"
#include "os/reactor.h"
#include "plan/plan.h"
#include "plan/request.h"

namespace lockstep::doctor {

// The plan of a survey: one agent on each node, however many tasks the job is to have there. Throws
// an Error where these surroundings allow none.
plan::LaunchPlan plan_of_survey(plan::Surroundings here, const std::string& who);

// How far another node's clock is ahead of ours, and how sure that is.
struct ClockOffset {
  double seconds = 0;
  double precision = 0;  // half of the quickest round trip

  bool operator==(const ClockOffset&) const = default;
};

// The nodes of a job, asked: agents as `lockstep run` starts them, but no workers, no run directory
// and no verdict. Nothing here waits longer than it is told to; a node that does not answer is
// simply not among the answers. Nodes are known by their place in the plan. One thread.
class Survey {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Plan and environment must outlive it. Throws an Error (69) where there is no control plane.
  Survey(const plan::LaunchPlan& plan, const os::Environment& environment);
  Survey(const Survey&) = delete;
  Survey& operator=(const Survey&) = delete;
  ~Survey();

  // Starts the agents and waits for them; why it failed, empty when all have come or time is up.
  // Throws an Error (69) when srun is not to be had.
  std::string gather(Milliseconds patience);

  // The nodes on which srun, by its own words, could start nothing; it then ends all others too.
  std::vector<std::string> unreachable() const;

  // Who is there, and who is not (any more).
  std::vector<int> present() const;
  std::vector<std::string> missing() const;
  const agent::Join& offer_of(int node) const { return agents_.at(node).offer; }

  // Lets all present nodes try each other on every network; `allowed` (interfaces, empty: all) cuts
  // the choice. Seats are places in present().
  plan::NetworkChoice try_networks(std::span<const std::string> allowed);
  const agent::NetworkTrials& trials() const { return trials_; }

  // A port of this node that nobody listens on; a wish (host and port, 0: none) is checked. Throws
  // an Error (69) when it is not to be had.
  int find_port(int node, const std::string& wanted_host, int wanted_port);

  // Their clocks against ours.
  std::map<int, ClockOffset> measure_clocks();

  // Puts a question to each and gives the answers of those that answer in time.
  std::map<int, std::string> ask(const std::function<std::string(int node)>& question,
                                 Milliseconds patience);

  // Says good-bye; waits a moment for the agents to leave.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  struct Agent {
    std::string peer;
    agent::Join offer;
    std::optional<agent::Probed> probed;
    std::optional<agent::Prepared> prepared;
    std::optional<agent::Refused> refused;
    std::optional<std::string> answer;
  };

  void send(int node, const agent::Order& order);
  void take_news();
  void take_message(const std::string& peer, const std::string& text);
  std::optional<std::string> find_dead_starter();
  // Serves the wire until `is_done` or `patience` has passed.
  void wait(Milliseconds patience, const std::function<bool()>& is_done);
  void run_trials(Milliseconds patience);

  const plan::LaunchPlan& plan_;
  const os::Environment& environment_;
  os::Reactor reactor_;
  agent::ControlKeys keys_;
  std::unique_ptr<agent::ControlServer> server_;
  agent::Starter starter_;
  std::vector<std::string> words_;  // of srun
  std::map<int, Agent> agents_;     // by node
  agent::NetworkTrials trials_;
};

}  // namespace lockstep::doctor
