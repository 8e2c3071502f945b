// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/compat.h"
#include "contract/worker_env.h"
#include "lockstep/communicator.h"

namespace lockstep::comm {

// A gang over several nodes, and why it is not there if it is not; the same on all workers.
struct NodeFirst {
  std::unique_ptr<Communicator> gang;
  std::string obstacle;
};

// Joins the workers of each node by shared memory and those of equal local rank by Gloo, so that
// one copy of the gradients leaves a node and not one per worker.
NodeFirst join_node_first(const compat::StorePtr& store,
                          const contract::WorkerPlace& place,
                          std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
