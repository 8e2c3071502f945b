// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "contract/worker_env.h"
#include "os/environment.h"
#include "plan/request.h"
#include "plan/source.h"

// What shall run, as a value: no process, no file, no clock. It is what --dry-run prints, what the
// run directory keeps, and what agents follow.
namespace lockstep::plan {

using Variables = std::map<std::string, Sourced<std::string>>;

// A machine and the workers on it.
struct Node {
  std::string name;
  Sourced<int> workers;
  Variables variables;  // for the workers of this node only

  bool operator==(const Node&) const = default;
};

struct LaunchPlan {
  std::string run_id;
  Sourced<std::string> run_directory;  // absolute
  std::vector<std::string> command;    // what each worker executes
  std::vector<Node> nodes;
  Sourced<std::string> master_addr;
  Sourced<int> master_port;
  Sourced<double> grace_seconds;
  Sourced<int> max_restarts;
  Variables variables;  // for every worker, beside those that tell its place

  bool operator==(const LaunchPlan&) const = default;
};

// Throws an Error (64) that quotes what cannot be done.
LaunchPlan make_plan(const Request& request, const Surroundings& here);

int world_size(const LaunchPlan& plan);

// Ranks count node by node: the workers of node 0 first, then those of node 1.
contract::WorkerPlace place_of(const LaunchPlan& plan, int node, int local_rank, int attempt);

// The whole environment of one worker: the agent's own, then the plan's, then its place.
os::Environment worker_environment(const LaunchPlan& plan,
                                   const contract::WorkerPlace& place,
                                   const os::Environment& agents_own);

// The plan as a table for people, with the source of every value.
std::string describe(const LaunchPlan& plan);

}  // namespace lockstep::plan
