// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/pace.h"
#include "slurm/job_settings.h"
#include "slurm/launcher.h"

namespace lockstep::slurm {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Where the training program finds its libraries.
enum class EnvironmentKind { None, Venv, Conda, Modules, Apptainer };

// A Slurm job as it was asked for, every value read and checked as far as that needs no cluster.
struct Job {
  std::string name;
  // Directives of sbatch by name, without the dashes; an empty value stands alone: "requeue".
  Pairs directives;  // sorted

  Launcher launcher = Launcher::Lockstep;
  std::string strategy = "ddp";
  int nodes = 1;
  int gpus_per_node = 0;
  int workers_per_node = 1;
  int tasks_per_node = 1;
  int cpus_per_task = 1;
  int64_t seconds = 0;  // of the time limit; 0: none
  bool is_array = false;
  bool is_requeued = false;
  std::optional<int> max_requeues;
  int signal_seconds = 0;  // of the warning; 0: none

  std::string program;       // shell text
  std::string exec_command;  // shell text in place of the launcher's line; empty: none
  std::string before;        // shell text
  std::string after;         // shell text
  std::vector<std::string> launcher_args;
  std::vector<std::string> metrics;  // NAME=REGEX
  std::vector<std::string> srun_args;
  std::string mpi;
  std::string interface;
  std::string run_dir;
  std::string lockstep;  // the launcher's path
  std::string python;
  int profile_hertz = 0;  // of py-spy; 0: no profile

  EnvironmentKind environment = EnvironmentKind::None;
  std::vector<std::string> modules;
  std::vector<std::string> module_use;
  bool is_module_purge = true;
  std::string venv;
  std::string conda_env;
  std::string conda_activate;
  Pairs variables;                   // that the script shows
  std::vector<std::string> secrets;  // names of those that it must not show
  std::string image;
  std::vector<std::string> binds;
  std::string container_gpu;
  std::vector<std::string> container_args;
  std::string container_runtime;
  std::string container_cache;

  // Of a directive; empty where it is not there.
  std::string directive(std::string_view option) const;
  int workers() const { return nodes * workers_per_node; }
};

// Finds the text of a file or URL that a key names.
using ReadText = std::function<std::string(const std::string& key, const std::string& where)>;

// What a job is made with beside its settings.
struct JobGround {
  std::string lockstep;  // this launcher's path
  // How fast an earlier run of a job with this name was.
  std::function<contract::Pace(const std::string& name)> earlier_pace;
  ReadText read_text;
};

// Throws an Error (64) with the place of what cannot be.
Job make_job(const JobSettings& settings, const JobGround& ground);

// The secrets of `settings`, by name, for the environment that the job is submitted with.
Pairs secrets_of(const JobSettings& settings);

}  // namespace lockstep::slurm
