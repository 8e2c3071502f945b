// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/launcher_task.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <initializer_list>
#include <span>
#include <string_view>

#include "common/contract/launcher_variables.h"
#include "common/contract/worker_env.h"
#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

constexpr int kMaxTasks = 1 << 24;

// The value as part of a file name: unchanged if it is valid there, else a hash of it.
std::string to_name(std::string_view value) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@";
  constexpr size_t kLongest = 80;
  if (value.size() <= kLongest && value.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(value);
  }
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: the same on every machine
  for (const char letter : value) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

// "PREFIX-VALUE" of the first variable that is set; empty if none is. The name must be equal in all
// tasks of one launch and differ from other launches, so that tasks of two runs on shared storage
// do not join each other.
std::string name_run(const os::Environment& environment,
                     std::string_view prefix,
                     std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto value = os::find_variable(environment, name);
    if (value && !value->empty()) {
      return fmt::format("{}-{}", prefix, to_name(*value));
    }
  }
  return "";
}

int read_number(const os::Environment& environment, std::string_view name, int minimum) {
  return contract::find_number(environment, name, minimum, kMaxTasks).value_or(minimum);
}

void require_below(std::string_view name, int value, std::string_view bound_name, int bound) {
  if (value >= bound) {
    throw Error(ExitCode::Usage, "cannot determine the rank: conflicting launcher variables")
        .fact(name, std::to_string(value), "environment")
        .fact(bound_name, std::to_string(bound), "environment")
        .hint(fmt::format("unset {} if it is left over from another launcher", name));
  }
}

// Nothing unless all four are set.
std::optional<LauncherTask> find_complete(const os::Environment& environment,
                                          const contract::RankVariables& names) {
  for (const std::string_view name : {names.rank, names.size, names.local_rank, names.local_size}) {
    if (!environment.contains(name)) {
      return std::nullopt;
    }
  }
  LauncherTask task;
  task.launcher = names.launcher;
  task.rank = read_number(environment, names.rank, 0);
  task.size = read_number(environment, names.size, 1);
  task.local_rank = read_number(environment, names.local_rank, 0);
  task.local_size = read_number(environment, names.local_size, 1);
  require_below(names.rank, task.rank, names.size, task.size);
  require_below(names.local_rank, task.local_rank, names.local_size, task.local_size);
  return task;
}

std::optional<LauncherTask> find_torchrun(const os::Environment& environment) {
  const bool is_torchrun = std::all_of(
      contract::kTorchrunMarks.begin(), contract::kTorchrunMarks.end(), [&](std::string_view name) {
        return environment.contains(name);
      });
  auto task = is_torchrun ? find_complete(environment, contract::kTorchrunNames) : std::nullopt;
  if (task) {
    task->node = contract::find_number(environment, "GROUP_RANK", 0, kMaxTasks);
    // A restarted worker must not join workers of the previous attempt.
    task->run = fmt::format("{}-{}-{}",
                            name_run(environment, "torchrun", {"TORCHELASTIC_RUN_ID"}),
                            read_number(environment, "MASTER_PORT", 0),
                            read_number(environment, "TORCHELASTIC_RESTART_COUNT", 0));
  }
  return task;
}

std::optional<LauncherTask> find_open_mpi(const os::Environment& environment) {
  auto task = find_complete(environment, contract::kOpenMpiNames);
  if (task) {
    // The first is random for every mpirun, up to Open MPI 4. The others are short numbers or
    // names, which two runs on different machines could share.
    task->run = name_run(environment,
                         "mpirun",
                         {"OMPI_MCA_orte_precondition_transports",
                          "PMIX_NAMESPACE",
                          "OMPI_MCA_ess_base_jobid",
                          "OMPI_MCA_orte_hnp_uri"});
  }
  return task;
}

// srun --mpi=pmi2 sets the same values as the step, which has more.
bool is_of_slurm(const os::Environment& environment) {
  const auto find = [&](std::string_view name) {
    return os::find_variable(environment, name);
  };
  return find("SLURM_STEP_ID") && find("PMI_RANK") == find("SLURM_PROCID") &&
         find("PMI_SIZE") == find("SLURM_STEP_NUM_TASKS");
}

std::optional<LauncherTask> find_pmi(const os::Environment& environment) {
  if (is_of_slurm(environment)) {
    return std::nullopt;
  }
  for (const contract::RankVariables& names : contract::kPmiNames) {
    if (auto task = find_complete(environment, names)) {
      task->run = name_run(environment,
                           "mpiexec",
                           {"PALS_APID", "PMI_JOBID", "PBS_JOBID", "LSB_JOBID", "SLURM_JOB_ID"});
      return task;
    }
  }
  return std::nullopt;
}

std::optional<LauncherTask> find_mvapich(const os::Environment& environment) {
  auto task = find_complete(environment, contract::kMvapichNames);
  if (task) {
    task->run = name_run(environment, "mvapich", {"PBS_JOBID", "LSB_JOBID", "SLURM_JOB_ID"});
  }
  return task;
}

std::optional<LauncherTask> find_jsm(const os::Environment& environment) {
  auto task = find_complete(environment, contract::kJsmNames);
  if (task) {
    task->run = name_run(environment, "jsrun", {"PMIX_NAMESPACE", "LSB_JOBID"});
  }
  return task;
}

bool has_one_of(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [name](std::string_view prefix) {
    return name.starts_with(prefix);
  });
}

bool describes_a_task(std::string_view name) {
  const auto& names = contract::kRankVariables;
  return std::find(names.begin(), names.end(), name) != names.end() ||
         (has_one_of(name, contract::kRankVariablePrefixes) &&
          !name.starts_with(contract::kSettingPrefix));
}

// Removes the interface that the launcher chose for a run, but not a value that the user set.
// GLOO_SOCKET_IFNAME and the others contain the plain name or, for NCCL, the exact form "=NAME".
void drop_chosen_interface(os::Environment& environment) {
  const auto chosen = os::find_variable(environment, contract::kChosenInterface);
  for (const std::string_view name : contract::kInterfaceVariables) {
    const auto value = os::find_variable(environment, name);
    if (chosen && value && (*value == *chosen || *value == "=" + *chosen)) {
      environment.erase(environment.find(name));
    }
  }
}

}  // namespace

std::optional<LauncherTask> find_launcher_task(const os::Environment& environment) {
  for (const auto find : {find_torchrun, find_open_mpi, find_pmi, find_mvapich, find_jsm}) {
    if (auto task = find(environment)) {
      return task;
    }
  }
  return std::nullopt;
}

bool is_inside_worker(const os::Environment& environment) {
  return environment.contains(contract::kRunId) &&
         environment.contains(contract::kTorchrunNames.rank);
}

// The interface first: the variable that remembers the choice is removed by the second step.
os::Environment without_rank_variables(os::Environment environment) {
  drop_chosen_interface(environment);
  std::erase_if(environment, [](const auto& variable) { return describes_a_task(variable.first); });
  return environment;
}

}  // namespace lockstep::cluster
