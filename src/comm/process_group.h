// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/compat.h"
#include "contract/worker_env.h"
#include "lockstep/communicator.h"

namespace lockstep::comm {

// Whether this build has the gloo transport (libtorch's wheels ship none of its headers).
bool has_gloo();

// Joins the gang over c10d's Gloo. The interface is the place's; without one it is loopback on one
// node, else the interface of the route to master_addr. Throws an Error if it does not exist.
std::unique_ptr<Communicator> join_gloo(const compat::StorePtr& store,
                                        const contract::WorkerPlace& place,
                                        std::chrono::milliseconds timeout);

// The group that libtorch's reducer needs. Sends each call to `communicator`, which must outlive
// it; on a thread of its own where that overlaps with the computation, and then nobody else may use
// `communicator` until the calls under way have ended.
compat::ProcessGroupPtr process_group_over(Communicator& communicator);

}  // namespace lockstep::comm
