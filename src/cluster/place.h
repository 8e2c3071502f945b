// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "contract/worker_env.h"
#include "os/environment.h"

namespace lockstep::cluster {

// Who told a worker its place.
enum class Origin { Alone, Launcher, OpenMpi };

struct Placement {
  contract::WorkerPlace place;
  Origin origin = Origin::Alone;
  // Whether MPI can be joined: mpirun, or another that speaks PMIx, started this very process.
  // Open MPI's variables alone do not say so, as our own launcher sets them too.
  bool is_under_mpi = false;

  bool operator==(const Placement&) const = default;
};

// The place of this worker in its gang: what a launcher's variables say (ours or torchrun's), else
// what mpirun's say, else a gang of one. Throws an Error that names the variable if one does not
// parse or two contradict each other.
Placement read_placement(const os::Environment& environment);

}  // namespace lockstep::cluster
