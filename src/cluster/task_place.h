// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "os/environment.h"

namespace lockstep::cluster {

// What an outer launcher has told this process of its place. Each source must be complete to count.
struct TaskPlace {
  std::string launcher;  // "torchrun", "Open MPI", "PMI", "MVAPICH", "jsrun"
  // What all tasks of that launcher share: a name for the meeting, fit for a file's. Empty where
  // the launcher tells nothing of the kind (mpiexec of MPICH outside a batch system).
  std::string run;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::optional<int> node;

  bool operator==(const TaskPlace&) const = default;
};

// In the order of design: torchrun's (complete: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID), Open MPI's, PMI's with a local rank from
// somebody, MVAPICH's, JSM's. What srun tells through PMI or PMIx is left to find_slurm_step, which
// knows more; PMIx alone tells no size. Throws an Error (64) that names the variable if one does
// not parse or two contradict.
std::optional<TaskPlace> find_task_place(const os::Environment& environment);

// Whether this process is a worker of lockstep's, or a descendant of one: what it finds of the
// other variables is then its own place, and says nothing about a run that it starts.
bool is_inside_worker(const os::Environment& environment);

// The environment without what launchers tell their workers (torchrun's, Open MPI's, Horovod's,
// PMI's, ours ...), for whoever starts new ones.
os::Environment without_places(os::Environment environment);

// Of what that takes away, the part by which MPI_Init finds the server that started this process.
// Started processes must not have it, as there is one place and several of them; a process that
// becomes a worker in its own place needs it: `environment.merge(mpi_places(own))`.
os::Environment mpi_places(os::Environment environment);

}  // namespace lockstep::cluster
