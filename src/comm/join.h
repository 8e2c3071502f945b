// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cluster/place.h"
#include "comm/compat.h"
#include "lockstep/communicator.h"

namespace lockstep::comm {

struct JoinOptions {
  // "auto", "shared-memory", "gloo", "node-first", "mpi" or "nccl". Auto: MPI under mpirun and srun
  // --mpi=pmix, shared memory on one node, node-first where several nodes have the same number of
  // workers, else Gloo; and above it NCCL, where every worker trains on a GPU of its own. NCCL: the
  // same, but also where they share one.
  std::string transport = "auto";
  torch::Device device = torch::kCPU;  // that this worker trains on
  // How long a worker waits for another one before it gives up.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// A gang that was joined, and the store by which its workers met; null alone and under MPI.
struct Joined {
  std::unique_ptr<Communicator> communicator;
  compat::StorePtr store;
};

// Joins the gang that this process belongs to.
Joined join_gang_and_store(const cluster::Placement& placement, const JoinOptions& options);

std::unique_ptr<Communicator> join_gang(const cluster::Placement& placement,
                                        const JoinOptions& options);

}  // namespace lockstep::comm
