// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "contract/worker_env.h"
#include "os/environment.h"
#include "plan/plan.h"

// From a plan and the nodes that have met to what each node runs in one attempt. Pure.
namespace lockstep::plan {

// One node of an attempt.
struct Seat {
  int node = 0;      // its place in LaunchPlan::nodes
  std::string name;  // what the machine calls itself
  int workers = 1;
  int cores = 1;           // granted there
  std::string address;     // of this node on the chosen network
  std::string interface;   // by which it is reached; empty on one node
  std::vector<int> ports;  // reserved there: one per worker, then two more

  bool operator==(const Seat&) const = default;
};

// What an attempt begins with.
struct Assembly {
  int attempt = 0;
  std::vector<Seat> seats;  // in the order of their ranks
  std::string master_addr;
  int master_port = 0;

  bool operator==(const Assembly&) const = default;
};

// What one node shall run in one attempt.
struct NodeOrder {
  std::string run_id;
  std::string run_directory;
  std::string node;  // its name
  std::vector<std::string> command;
  int program_word = 0;         // which word of the command is the program
  std::string local_rank_flag;  // "--local-rank": added with the number; empty: not added
  // Of its first worker; the others differ in what places() adds.
  contract::WorkerPlace first;
  int workers = 1;
  std::vector<int> cross_ranks;  // per worker
  std::vector<int> cross_sizes;
  os::Environment variables;  // for each of them
  Bind bind = Bind::None;
  std::vector<int> gpus;
  OutputRules output;
  std::vector<Metric> metrics;
  double sample_every_seconds = 0;              // 0: never
  int cores = 1;                                // granted on this node
  int horovod_port = 0;                         // on the first node: where Horovod's workers meet
  std::vector<std::string> tensorflow_cluster;  // host:port of every worker
  double grace_seconds = 30;
  int attempt = 0;

  // One per worker.
  std::vector<contract::WorkerPlace> places() const;

  bool operator==(const NodeOrder&) const = default;
};

// Makes the orders of all seats of one attempt. Plan and assembly must outlive it.
class OrderMaker {
 public:
  OrderMaker(const LaunchPlan& plan, const Assembly& assembly);

  NodeOrder order_of(int seat) const;

 private:
  const LaunchPlan& plan_;
  const Assembly& assembly_;
  int world_size_ = 0;
  std::vector<int> first_ranks_;                    // per seat
  std::vector<std::vector<int>> seats_with_local_;  // per local rank: the seats that have one
  std::vector<std::string> tensorflow_cluster_;
};

int world_size(const Assembly& assembly);

// Workers of a node that counts them itself, from what it has.
int count_by_rule(WorkerRule rule, int cores, int gpus);

// The whole environment of one worker: `environment`, the order's variables, the worker's place.
os::Environment task_environment(const NodeOrder& order,
                                 const contract::WorkerPlace& place,
                                 os::Environment environment);

// The same for an agent's child: without what an outer launcher has told the agent of its own
// place.
os::Environment worker_environment(const NodeOrder& order,
                                   const contract::WorkerPlace& place,
                                   const os::Environment& agents_own);

}  // namespace lockstep::plan
