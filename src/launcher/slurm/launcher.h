// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::slurm {

// Program that starts the workers of a job.
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

// Value of the key `launcher`: "mpirun-torchrun".
std::string_view name_of(Launcher launcher);

// All names, in the order of the enumerators.
const std::vector<std::string>& launcher_names();

// The name must be one of launcher_names().
Launcher launcher_named(std::string_view name);

// Whether there is one Slurm task per worker rather than one per node.
bool has_task_per_worker(Launcher launcher);

}  // namespace lockstep::slurm
