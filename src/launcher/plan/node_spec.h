// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/contract/worker_env.h"
#include "common/os/environment.h"
#include "launcher/plan/plan.h"

// Derives from the plan and the rendezvous result what each node executes in one attempt. Pure
// functions.
namespace lockstep::plan {

// One node of an attempt.
struct NodeSlot {
  int node = 0;      // index in LaunchPlan::nodes
  std::string name;  // host name as the machine reports it
  int workers = 1;
  int cores = 1;           // granted on this node
  std::string address;     // of this node on the chosen network
  std::string interface;   // of that address; empty if there is one node
  std::vector<int> ports;  // reserved on this node: one per worker, then two more

  bool operator==(const NodeSlot&) const = default;
};

// The result of the rendezvous: the nodes of an attempt.
struct AttemptLayout {
  int attempt = 0;
  std::vector<NodeSlot> slots;  // in rank order
  std::string master_addr;
  int master_port = 0;

  bool operator==(const AttemptLayout&) const = default;
};

// Everything that the agent of one node needs for one attempt.
struct NodeSpec {
  std::vector<std::string> command;
  int program_word = 0;         // index of the program in `command`
  std::string local_rank_flag;  // "--local-rank": passed with the number; empty: not passed
  // Of the first worker. worker_specs() derives those of the others. Run, attempt, node and the
  // Horovod rendezvous, which the first node serves, are the same for all.
  contract::WorkerSpec first;
  int workers = 1;
  std::vector<int> cross_ranks;  // per worker
  std::vector<int> cross_sizes;
  os::Environment variables;  // for every worker
  Bind bind = Bind::None;
  std::vector<int> gpus;
  bool starts_mps = false;
  OutputRules output;
  std::vector<Metric> metrics;
  double sample_every_seconds = 0;              // 0: never
  int cores = 1;                                // granted on this node
  std::vector<std::string> tensorflow_cluster;  // host:port of every worker

  // One per worker.
  std::vector<contract::WorkerSpec> worker_specs() const;

  // Whether the agent of this node runs the Horovod rendezvous server.
  bool serves_horovod() const { return first.node_rank == 0 && first.horovod_port != 0; }

  bool operator==(const NodeSpec&) const = default;
};

// Creates the specs of all slots of one attempt. Plan and layout must outlive it.
class NodeSpecMaker {
 public:
  NodeSpecMaker(const LaunchPlan& plan, const AttemptLayout& layout);

  NodeSpec spec_of(int slot) const;

 private:
  const LaunchPlan& plan_;
  const AttemptLayout& layout_;
  int world_size_ = 0;
  std::vector<int> first_ranks_;                    // per slot
  std::vector<std::vector<int>> slots_with_local_;  // per local rank: the slots that have it
  std::vector<std::string> tensorflow_cluster_;
};

int world_size(const AttemptLayout& layout);

// Number of workers on a node that derives it from its own cores and GPUs.
int count_by_rule(WorkerRule rule, int cores, int gpus);

// The complete environment of a worker: `environment`, the variables of the spec, the variables of
// its rank.
os::Environment task_environment(const NodeSpec& spec,
                                 const contract::WorkerSpec& worker_spec,
                                 os::Environment environment);

// Like task_environment, for the child of an agent: removes the rank variables that an outer
// launcher set for the agent itself.
os::Environment worker_environment(const NodeSpec& spec,
                                   const contract::WorkerSpec& worker_spec,
                                   const os::Environment& agents_own);

}  // namespace lockstep::plan
