// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/ground.h"
#include "plan/plan.h"
#include "plan/sizes.h"

namespace lockstep::plan {

// How many workers each node of `ground` has.
struct WorkerCounts {
  std::vector<Sourced<int>> per_node;  // 0: counted on the node, by the rule
  WorkerRule rule = WorkerRule::Number;
};

// Throws an Error (64) that names both sources where flags, slots, Slurm's tasks and GPUs
// contradict each other. A node may be left with 0 workers where -np fills the slots of the first
// ones only.
WorkerCounts count_workers(const Request& request,
                           const Surroundings& here,
                           const Sizes& sizes,
                           const Ground& ground);

}  // namespace lockstep::plan
