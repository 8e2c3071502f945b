// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "common/cluster/placement.h"
#include "lockstep/communicator.h"
#include "lockstep/error.h"
#include "training/train/options/flags.h"

namespace lockstep::train {

// Returns the number of replicas of the program's body in this process: --replicas; otherwise,
// under -s mirrored, one per GPU if this process is the only worker of its node; otherwise one.
int choose_replicas(const Flags& flags, const contract::WorkerSpec& spec);

// The arguments of one replica: its rank among all replicas of all processes, its process group,
// and a function to call before it runs the code of the program.
struct Replica {
  cluster::Placement placement;
  Communicator& communicator;
  // Blocks until it is the turn of this replica. Replicas share the random number generator of
  // libtorch and must create identical weights. They therefore start one after the other: each one
  // when the previous one waits in its first collective, or has ended.
  std::function<void()> wait_for_turn;
};

// Runs `body` on `count` threads, once per replica. `outer` is the process group of the processes,
// or null if there is only one process. Rethrows the first exception when all replicas have ended.
// If a replica cannot end because it waits for another process, calls `leave` with the exception
// instead; `leave` must not return.
void run_replicas(int count,
                  const cluster::Placement& placement,
                  Communicator* outer,
                  const std::function<void(const Replica&)>& body,
                  const std::function<void(std::exception_ptr)>& leave);

}  // namespace lockstep::train
