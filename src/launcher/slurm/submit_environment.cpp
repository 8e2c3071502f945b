// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/submit_environment.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/cluster/launcher_task.h"

namespace lockstep::slurm {
namespace {

// Users set these to reach their cluster, inside and outside of jobs.
constexpr auto kKept = std::to_array<std::string_view>({"SLURM_CONF", "SLURM_CONF_SERVER"});

constexpr auto kOfJobs = std::to_array<std::string_view>(
    {"SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "PMI_", "PMIX_", "OMPI_", "PRTE_"});

// MPI settings of the user are kept. Slurm sets this one itself; cluster::without_rank_variables()
// removes the other variables that mpirun and Slurm set.
constexpr std::string_view kMpiSettings = "OMPI_MCA_";
constexpr auto kMpiOfSlurm = std::to_array<std::string_view>({"OMPI_MCA_plm_slurm_args"});

// Slurm sets these for the GPUs of a step.
constexpr auto kGpus = std::to_array<std::string_view>({"CUDA_VISIBLE_DEVICES",
                                                        "ROCR_VISIBLE_DEVICES",
                                                        "HIP_VISIBLE_DEVICES",
                                                        "GPU_DEVICE_ORDINAL",
                                                        "ZE_AFFINITY_MASK"});

template <typename Names>
bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_inside_job(const os::Environment& environment) {
  return environment.contains("SLURM_JOB_ID") || environment.contains("SLURM_JOBID");
}

bool belongs_to_job(std::string_view name) {
  if (has(kKept, name) || (name.starts_with(kMpiSettings) && !has(kMpiOfSlurm, name))) {
    return false;
  }
  return std::any_of(kOfJobs.begin(), kOfJobs.end(), [name](std::string_view prefix) {
    return name.starts_with(prefix);
  });
}

}  // namespace

// A job that submits another one is common (chains, sweeps). sbatch passes its environment on to
// the new job, and reads SBATCH_* and some SLURM_* variables as options: the new job would get the
// node count, the memory or the GPU binding of the old one. The check for GPUs must precede the
// removal of the variables that it uses. ENVIRONMENT=BATCH is set by Slurm for batch jobs.
os::Environment submit_environment(os::Environment environment) {
  environment.erase("SBATCH_WAIT");
  if (!is_inside_job(environment)) {
    return environment;
  }
  const bool has_gpus = environment.contains("SLURM_GPUS_ON_NODE") ||
                        environment.contains("SLURM_JOB_GPUS") ||
                        environment.contains("SLURM_STEP_GPUS");
  environment = cluster::without_rank_variables(std::move(environment));
  std::erase_if(environment, [has_gpus](const auto& variable) {
    return belongs_to_job(variable.first) || (has_gpus && has(kGpus, variable.first));
  });
  if (os::find_variable(environment, "ENVIRONMENT") == "BATCH") {
    environment.erase("ENVIRONMENT");
  }
  return environment;
}

os::Environment query_environment(const os::Environment& environment) {
  os::Environment variables = submit_environment(environment);
  variables.insert_or_assign("SLURM_TIME_FORMAT", "standard");
  return variables;
}

}  // namespace lockstep::slurm
