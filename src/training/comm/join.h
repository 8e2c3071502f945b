// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/cluster/placement.h"
#include "lockstep/communicator.h"
#include "training/comm/compat.h"

namespace lockstep::comm {

struct JoinOptions {
  // "auto", "shared-memory", "gloo", "node-first", "mpi" or "nccl".
  //
  // auto: MPI under mpirun and srun --mpi=pmix; shared memory on one node; node-first if all nodes
  // have the same number of workers; otherwise Gloo. If every worker trains on a GPU of its own,
  // NCCL is added for GPU tensors. nccl: the same, but also for workers that share a GPU.
  std::string transport = "auto";
  torch::Device device = torch::kCPU;  // device of this worker
  // Maximum time to wait for another worker.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// The process group of this worker, and the store of its rendezvous. The store is null for a single
// worker and under MPI.
struct Joined {
  std::unique_ptr<Communicator> communicator;
  compat::StorePtr store;
};

// Joins the process group that this process belongs to.
Joined join_process_group(const cluster::Placement& placement, const JoinOptions& options);

}  // namespace lockstep::comm
