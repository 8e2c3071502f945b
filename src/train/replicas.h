// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "cluster/place.h"
#include "lockstep/communicator.h"
#include "lockstep/error.h"
#include "train/flags.h"

namespace lockstep::train {

// How many replicas of the program's body this process runs: --replicas, else under -s mirrored
// one for each GPU if it has several for itself, else one.
int choose_replicas(const Flags& flags, const contract::WorkerPlace& place);

// What one replica gets: its place in the whole gang, its channel to it, and a call to make when it
// is ready to run the program's own code.
struct Replica {
  cluster::Placement placement;
  Communicator& communicator;
  // Returns when it is this replica's turn. Replicas share libtorch's random numbers, so they begin
  // one after the other: each when the one before waits in its first collective, or has ended.
  std::function<void()> wait_for_turn;
};

// Runs `body` once for each of `count` replicas, on threads. `outer` joins the processes; null if
// this is the only one. Rethrows the first exception when all have ended; if one cannot end because
// it waits for another process, calls `leave` with it instead, which must not return.
void run_replicas(int count,
                  const cluster::Placement& placement,
                  Communicator* outer,
                  const std::function<void(const Replica&)>& body,
                  const std::function<void(std::exception_ptr)>& leave);

}  // namespace lockstep::train
