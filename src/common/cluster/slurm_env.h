// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.h"

// The Slurm variables in the environment. Those of the job and of the step are kept apart: a batch
// script has SLURM_PROCID=0 and is not a task, and a task inherits the variables of its job.
namespace lockstep::cluster {

// The allocation: SLURM_JOB_*. For a heterogeneous job, component 0, where srun runs by default.
struct SlurmJob {
  std::string id;
  std::vector<std::string> nodes;
  // Per node; empty if Slurm does not report it.
  std::vector<int> cpus_per_node;
  // The next three are absent inside a step, where srun replaces them by those of the step.
  std::vector<int> tasks_per_node;          // per node
  std::optional<int> asked_tasks_per_node;  // --ntasks-per-node
  std::optional<int> asked_tasks;           // --ntasks
  std::optional<int> cpus_per_task;         // -c
  std::optional<int> gpus_per_node;         // in any format; "fake:2" is 2
  std::optional<int> restart_count;
  std::optional<int64_t> end_time;  // seconds since the epoch

  bool operator==(const SlurmJob&) const = default;
};

// The step in which this process is a task: SLURM_STEP_* and a regular step number. Slurm 26 gives
// -5 to batch scripts, and interactive shells of salloc have a special number, too.
struct SlurmStep {
  std::string job_id;
  std::string id;
  std::vector<std::string> nodes;
  std::vector<int> tasks_per_node;
  int tasks = 1;
  int task = 0;                // SLURM_PROCID
  int local_task = 0;          // SLURM_LOCALID
  int node = 0;                // SLURM_NODEID
  std::string launch_address;  // of the host that runs srun; empty: unknown

  bool operator==(const SlurmStep&) const = default;
};

// Throw an Error (64) that names the variable if a value is invalid, missing from a step, or
// conflicts with another.
std::optional<SlurmJob> find_slurm_job(const os::Environment& environment);
std::optional<SlurmStep> find_slurm_step(const os::Environment& environment);

}  // namespace lockstep::cluster
