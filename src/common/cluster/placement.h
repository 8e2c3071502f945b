// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/contract/worker_env.h"
#include "common/os/environment.h"

namespace lockstep::cluster {

// The launcher that set the rank of a worker.
enum class LaunchedBy { Alone, Launcher, OpenMpi, TfConfig, Slurm };

struct Placement {
  contract::WorkerSpec worker;
  LaunchedBy launched_by = LaunchedBy::Alone;
  // Whether MPI_Init works: mpirun, or another launcher with PMIx, started this very process. The
  // variables of Open MPI do not prove it, because lockstep sets them, too.
  bool is_under_mpi = false;

  bool operator==(const Placement&) const = default;
};

// The rank of this worker. Sources in order of precedence: the variables of a launcher (lockstep or
// torchrun), those of mpirun, TF_CONFIG, those of an srun step with several tasks; otherwise a
// process without peers. A program that a worker of lockstep started uses only the first two.
// Throws an Error that names the variable if a value is invalid or two values conflict.
//
// Under plain srun, the master address is the first node of the step (127.0.0.1 if it is the only
// one) and the port is 15000 + (16 x job + step) mod 16000. MASTER_ADDR and MASTER_PORT override
// both.
Placement read_placement(const os::Environment& environment);

}  // namespace lockstep::cluster
