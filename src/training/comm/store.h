// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "common/contract/worker_env.h"
#include "training/comm/compat.h"

namespace lockstep::comm {

// Connects to the store of the rendezvous. Rank 0 or the agent of torchrun serves it on
// master_addr:master_port. Throws an Error if the port is in use or the server does not respond in
// time.
compat::StorePtr join_store(const contract::WorkerSpec& spec, std::chrono::milliseconds timeout);

// Blocks until all workers have called this. Throws an Error that names the ranks that did not
// arrive in time.
void await_all(const compat::StorePtr& store,
               const contract::WorkerSpec& spec,
               std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
