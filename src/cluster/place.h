// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "contract/worker_env.h"
#include "os/environment.h"

namespace lockstep::cluster {

// Who told a worker its place.
enum class Origin { Alone, Launcher, OpenMpi, TfConfig, Slurm };

struct Placement {
  contract::WorkerPlace place;
  Origin origin = Origin::Alone;
  // Whether MPI can be joined: mpirun, or another that speaks PMIx, started this very process.
  // Open MPI's variables alone do not say so, as our own launcher sets them too.
  bool is_under_mpi = false;

  bool operator==(const Placement&) const = default;
};

// The place of this worker in its gang: what a launcher's variables say (ours or torchrun's), else
// what mpirun's say, else what TF_CONFIG says, else what a step of srun with several tasks says,
// else a gang of one. A program that a worker of ours has started knows only the first two. Throws
// an Error that names the variable if one does not parse or two contradict each other.
//
// Under plain srun the gang meets on the step's first node (127.0.0.1 if it has only one), at port
// 15000 + (16 x job + step) mod 16000; MASTER_ADDR and MASTER_PORT stand above both.
Placement read_placement(const os::Environment& environment);

}  // namespace lockstep::cluster
