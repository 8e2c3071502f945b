// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "common/os/environment.h"

namespace lockstep::cluster {

// The rank that an outer launcher set for this process. A source counts only if it is complete.
struct LauncherTask {
  std::string launcher;  // "torchrun", "Open MPI", "PMI", "MVAPICH", "jsrun"
  // A name that all tasks of the launcher share, for the rendezvous and for file names. Empty if
  // the launcher provides none (mpiexec of MPICH outside a batch system).
  std::string run;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::optional<int> node;

  bool operator==(const LauncherTask&) const = default;
};

// Sources in order of precedence: torchrun (complete: RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID), Open MPI, PMI with a local rank
// from any launcher, MVAPICH, JSM. Values that srun sets through PMI or PMIx are left to
// find_slurm_step, which has more; PMIx alone provides no size. Throws an Error (64) that names the
// variable if a value is invalid or two values conflict.
std::optional<LauncherTask> find_launcher_task(const os::Environment& environment);

// Whether this process is a worker of lockstep or a descendant of one. The variables of other
// launchers then describe that worker, not a run that this process starts.
bool is_inside_worker(const os::Environment& environment);

// The environment without the rank variables of all launchers (torchrun, Open MPI, Horovod, PMI,
// lockstep ...), for starting new workers.
os::Environment without_rank_variables(os::Environment environment);

}  // namespace lockstep::cluster
