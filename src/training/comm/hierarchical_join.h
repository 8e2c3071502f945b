// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/contract/worker_env.h"
#include "lockstep/communicator.h"
#include "training/comm/compat.h"

namespace lockstep::comm {

// The communicator, or the reason why node-first is not possible. The result is equal on all
// workers.
struct HierarchicalJoin {
  std::unique_ptr<Communicator> communicator;
  std::string obstacle;
};

// Connects the workers of each node through shared memory and workers with equal local rank through
// Gloo (hierarchical all-reduce). One copy of the gradients leaves a node, instead of one per
// worker.
HierarchicalJoin join_hierarchical(const compat::StorePtr& store,
                                   const contract::WorkerSpec& spec,
                                   std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
