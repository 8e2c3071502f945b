// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "lockstep/communicator.h"
#include "training/comm/compat.h"

namespace lockstep::comm {

// Joins all workers of one machine through a segment of shared memory: more than 3 times the
// bandwidth of Gloo and 1/100 of its latency. `store` is used only for the rendezvous.
//
// Returns null on all workers if they do not all run on one machine, or if the machine has not
// enough space for the segment.
std::unique_ptr<Communicator> join_shared_memory(c10d::Store& store,
                                                 int rank,
                                                 int size,
                                                 std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
