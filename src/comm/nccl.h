// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <torch/torch.h>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// Whether this build has NCCL.
bool has_nccl();

// A gang whose tensors on `device` travel by NCCL, each on the stream that is current where it is
// asked for; all else, and what it takes to meet, goes over `host`. All workers call it, each with
// the GPU it trains on.
//
// NCCL wants a GPU for each worker. Where some share one, `host` itself comes back; with `insist`
// NCCL is told that they are on different nodes, and exchanges over sockets: right, and slow. May
// then change this process's environment. Where a worker has no GPU `host` comes back, or with
// `insist` an Error is thrown.
std::unique_ptr<Communicator> join_nccl(std::unique_ptr<Communicator> host,
                                        torch::Device device,
                                        bool insist);

}  // namespace lockstep::comm
