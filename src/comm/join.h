// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cluster/place.h"
#include "lockstep/communicator.h"

namespace lockstep::comm {

struct JoinOptions {
  // "auto", "shared-memory", "gloo" or "mpi". Auto: MPI under mpirun, shared memory on one node,
  // else Gloo.
  std::string transport = "auto";
  // How long a worker waits for another one before it gives up.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// Joins the gang that this process belongs to.
std::unique_ptr<Communicator> join_gang(const cluster::Placement& placement,
                                        const JoinOptions& options);

}  // namespace lockstep::comm
