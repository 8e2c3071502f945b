// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <torch/types.h>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// Whether this build has NCCL.
bool has_nccl();

// Returns a communicator that sends tensors on `device` through NCCL, on the current stream of the
// caller. Everything else, including the NCCL rendezvous, uses `host`. All workers call it
// together, each with the GPU that it trains on.
//
// NCCL needs one GPU per worker. If workers share a GPU, `host` is returned. With `insist`, NCCL is
// instead made to believe that these workers are on different nodes and exchanges through sockets,
// which is correct but slow; this may change the environment of the process. If a worker has no
// GPU, `host` is returned, or with `insist` an Error is thrown.
std::unique_ptr<Communicator> join_nccl(std::unique_ptr<Communicator> host,
                                        torch::Device device,
                                        bool insist);

}  // namespace lockstep::comm
