// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "comm/compat.h"
#include "contract/worker_env.h"

namespace lockstep::comm {

// The store through which the workers of a gang find each other: rank 0, or torchrun's agent,
// serves it on master_addr:master_port. Throws an Error if the port is taken or nobody answers in
// time.
compat::StorePtr join_store(const contract::WorkerPlace& place, std::chrono::milliseconds timeout);

// Waits until all workers of the gang have called this. Throws an Error that names those who did
// not come in time.
void await_all(const compat::StorePtr& store,
               const contract::WorkerPlace& place,
               std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
