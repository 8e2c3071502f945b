// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/plan/launch_target.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/sizes.h"
#include "lockstep/error.h"

namespace lockstep::plan {

// The number of workers on each node of `target`.
struct WorkerCounts {
  std::vector<Sourced<int>> per_node;  // 0: counted on the node, by the rule
  WorkerRule rule = WorkerRule::Number;
};

// Throws an Error (64) that names both sources when flags, slots, Slurm tasks and GPUs contradict
// each other. Nodes have 0 workers if -np fills the slots of the first nodes only.
WorkerCounts count_workers(const Request& request,
                           const HostEnvironment& here,
                           const Sizes& sizes,
                           const LaunchTarget& target);

// Adds to an error why this node has no GPU for a worker, and for MIG what to do.
void add_missing_gpus(Error& error, const HostEnvironment& here);

}  // namespace lockstep::plan
