// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/environment.h"

// What Slurm says of itself in the environment. The job's and the step's variables are kept apart:
// a batch script has SLURM_PROCID=0 and is no task, and a task inherits what its job was given.
namespace lockstep::cluster {

// The allocation: SLURM_JOB_*; of a heterogeneous job its component 0, where srun goes by default.
struct SlurmJob {
  std::string id;
  std::vector<std::string> nodes;
  // Per node; empty when Slurm does not tell.
  std::vector<int> cpus_per_node;
  // These three are absent inside a step, where srun has put the step's own in their place.
  std::vector<int> tasks_per_node;          // per node
  std::optional<int> asked_tasks_per_node;  // --ntasks-per-node
  std::optional<int> asked_tasks;           // --ntasks
  std::optional<int> cpus_per_task;         // -c
  std::optional<int> gpus_per_node;         // of any spelling; "fake:2" is 2
  std::optional<int> restart_count;
  std::optional<int64_t> end_time;  // seconds since the epoch

  bool operator==(const SlurmJob&) const = default;
};

// The step in which this process is a task: SLURM_STEP_*, and a step number that is an ordinary one
// (Slurm 26 gives batch scripts -5, and interactive shells of salloc have a special one too).
struct SlurmStep {
  std::string job_id;
  std::string id;
  std::vector<std::string> nodes;
  std::vector<int> tasks_per_node;
  int tasks = 1;
  int task = 0;                // SLURM_PROCID
  int local_task = 0;          // SLURM_LOCALID
  int node = 0;                // SLURM_NODEID
  std::string launch_address;  // of the machine on which srun runs; empty: not told

  bool operator==(const SlurmStep&) const = default;
};

// Throw an Error (64) that names the variable when one does not parse, is missing from a step, or
// contradicts another.
std::optional<SlurmJob> find_slurm_job(const os::Environment& environment);
std::optional<SlurmStep> find_slurm_step(const os::Environment& environment);

}  // namespace lockstep::cluster
