// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/contract/worker_env.h"
#include "lockstep/communicator.h"
#include "training/comm/compat.h"

namespace lockstep::comm {

// Whether this build has the Gloo transport. The wheels of libtorch do not include its headers.
bool has_gloo();

// Joins the process group through c10d's Gloo, on the interface of `spec`. Without one, it uses
// loopback on a single node, otherwise the interface of the route to master_addr. Throws an Error
// if the interface does not exist.
std::unique_ptr<Communicator> join_gloo(const compat::StorePtr& store,
                                        const contract::WorkerSpec& spec,
                                        std::chrono::milliseconds timeout);

// The process group for libtorch's reducer. Forwards each call to `communicator`, which must
// outlive it. If the transport can overlap with computation, calls run on a thread of their own; no
// other thread may use `communicator` until they have completed.
compat::ProcessGroupPtr process_group_over(Communicator& communicator);

}  // namespace lockstep::comm
