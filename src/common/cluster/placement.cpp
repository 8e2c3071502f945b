// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/placement.h"

#include <optional>
#include <string>
#include <string_view>

#include "common/base/text.h"
#include "common/cluster/slurm_env.h"
#include "common/cluster/tf_config.h"
#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

constexpr int kMaxWorkers = 1 << 20;

int require_number(const os::Environment& environment, std::string_view name, int minimum) {
  const auto value = contract::find_number(environment, name, minimum, kMaxWorkers);
  if (!value) {
    throw Error(ExitCode::Usage, "cannot determine the rank of this worker")
        .fact("found", "some variables of Open MPI", "environment")
        .fact("missing", name, "environment")
        .hint("start the program with mpirun or lockstep run, or unset OMPI_COMM_WORLD_*");
  }
  return *value;
}

// Only a launcher with an MPI server sets these: Open MPI 4 and older, Open MPI 5, srun with PMIx.
bool has_mpi_server(const os::Environment& environment) {
  return environment.contains("OMPI_MCA_ess_base_jobid") || environment.contains("PMIX_NAMESPACE");
}

// lockstep also sets the variables of Open MPI, for programs that read their rank from them. They
// remain set if a worker unsets RANK and WORLD_SIZE to run a program alone.
bool are_our_own(const os::Environment& environment) {
  return environment.contains(contract::kRunId) && !has_mpi_server(environment);
}

// Open MPI does not provide a node number. Its default mapping, by slot, fills one node after the
// other, so that the node is rank / local size. Other mappings make this value wrong: nothing may
// depend on it across nodes.
std::optional<contract::WorkerSpec> find_open_mpi_worker(const os::Environment& environment) {
  constexpr std::string_view kRank = "OMPI_COMM_WORLD_RANK";
  constexpr std::string_view kSize = "OMPI_COMM_WORLD_SIZE";
  const bool is_set = environment.contains(kRank) || environment.contains(kSize);
  if (!is_set || are_our_own(environment)) {
    return std::nullopt;
  }
  contract::WorkerSpec spec = contract::single_worker(environment);
  spec.rank = require_number(environment, kRank, 0);
  spec.world_size = require_number(environment, kSize, 1);
  spec.local_rank = require_number(environment, "OMPI_COMM_WORLD_LOCAL_RANK", 0);
  spec.local_world_size = require_number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  spec.nodes = (spec.world_size + spec.local_world_size - 1) / spec.local_world_size;
  spec.node_rank = spec.rank / spec.local_world_size;
  return spec;
}

// Different steps of a job, and of jobs with neighbouring numbers, get different ports. The ports
// are below the ephemeral port range of the kernel.
int port_of(const SlurmStep& step) {
  constexpr int64_t kFirst = 15000;
  constexpr int64_t kCount = 16000;
  constexpr int64_t kStepsOfAJob = 16;
  const int64_t number =
      kStepsOfAJob * find_integer(step.job_id).value_or(0) + find_integer(step.id).value_or(0);
  return static_cast<int>(kFirst + number % kCount);
}

// A task of plain srun. A step with one task counts as a single process, because a shell of
// `srun --pty` starts such programs.
std::optional<contract::WorkerSpec> find_slurm_worker(const os::Environment& environment) {
  const auto step = find_slurm_step(environment);
  if (!step || step->tasks == 1) {
    return std::nullopt;
  }
  contract::WorkerSpec spec = contract::single_worker(environment);
  spec.rank = step->task;
  spec.world_size = step->tasks;
  spec.local_rank = step->local_task;
  spec.local_world_size = step->tasks_per_node[static_cast<size_t>(step->node)];
  spec.node_rank = step->node;
  spec.nodes = static_cast<int>(step->nodes.size());
  spec.node = step->nodes[static_cast<size_t>(step->node)];
  if (!environment.contains("MASTER_ADDR") && spec.nodes > 1) {
    spec.master_addr = step->nodes.front();
  }
  spec.master_port =
      contract::find_number(environment, "MASTER_PORT", 1, 65535).value_or(port_of(*step));
  return spec;
}

}  // namespace

// The order decides which launcher wins if their variables are nested, as in "srun lockstep run" or
// "mpirun" within a job: the innermost launcher comes first.
Placement read_placement(const os::Environment& environment) {
  if (const auto spec = contract::find_worker(environment)) {
    return {*spec, LaunchedBy::Launcher, has_mpi_server(environment)};
  }
  if (const auto spec = find_open_mpi_worker(environment)) {
    return {*spec, LaunchedBy::OpenMpi, true};
  }
  // Inside a worker, the remaining variables, including TF_CONFIG, describe that worker.
  if (!environment.contains(contract::kRunId)) {
    if (const auto spec = find_tf_config_worker(environment)) {
      return {*spec, LaunchedBy::TfConfig, false};
    }
    if (const auto spec = find_slurm_worker(environment)) {
      return {*spec, LaunchedBy::Slurm, has_mpi_server(environment)};
    }
  }
  return {contract::single_worker(environment), LaunchedBy::Alone, false};
}

}  // namespace lockstep::cluster
