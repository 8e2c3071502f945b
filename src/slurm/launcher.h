// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::slurm {

// Who starts the workers of a job.
enum class Launcher {
  Lockstep,        // lockstep run: one srun, one agent per node
  Torchrun,        // srun, one torchrun per node
  MpirunTorchrun,  // mpirun, one torchrun per node
  Srun,            // srun, one task per worker
  Mpirun,          // mpirun, one process per worker
  Horovodrun,      // horovodrun, over ssh
  Loop,            // one srun per node in a loop, torch.distributed.launch in each
  Tensorflow,      // srun, one task per worker, with TF_CONFIG
};

// "mpirun-torchrun"
std::string_view name_of(Launcher launcher);

// All names, in the order above.
const std::vector<std::string>& launcher_names();

// Of a name in that list.
Launcher launcher_named(std::string_view name);

// Whether each worker is a task of Slurm's, rather than each node.
bool has_task_per_worker(Launcher launcher);

}  // namespace lockstep::slurm
