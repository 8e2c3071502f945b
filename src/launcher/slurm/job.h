// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/contract/pace.h"
#include "launcher/slurm/job_settings.h"
#include "launcher/slurm/launcher.h"

namespace lockstep::slurm {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Software environment of the training program.
enum class EnvironmentKind { None, Venv, Conda, Modules, Apptainer };

// A Slurm job with all values parsed, and checked as far as possible without a cluster.
struct Job {
  std::string name;
  // Directives by option name without dashes. The value is empty for a flag such as "requeue".
  Pairs directives;  // sorted

  Launcher launcher = Launcher::Lockstep;
  std::string strategy = "ddp";
  int nodes = 1;
  int gpus_per_node = 0;
  int workers_per_node = 1;
  int tasks_per_node = 1;
  int cpus_per_task = 1;
  int64_t seconds = 0;  // time limit; 0: none
  bool is_array = false;
  bool is_requeued = false;
  std::optional<int> max_requeues;
  int signal_seconds = 0;  // from the signal to the time limit; 0: no signal

  std::string program;       // shell code
  std::string exec_command;  // shell code that replaces the launch command; empty: none
  std::string before;        // shell code
  std::string after;         // shell code
  std::vector<std::string> launcher_args;
  std::vector<std::string> metrics;  // NAME=REGEX
  std::vector<std::string> srun_args;
  std::string mpi;
  std::string interface;
  std::string run_dir;
  std::string lockstep;  // path of the executable
  std::string python;
  int profile_hertz = 0;  // sampling rate of py-spy; 0: no profile

  EnvironmentKind environment = EnvironmentKind::None;
  std::vector<std::string> modules;
  std::vector<std::string> module_use;
  bool is_module_purge = true;
  std::string venv;
  std::string conda_env;
  std::string conda_activate;
  Pairs variables;                   // written into the script
  std::vector<std::string> secrets;  // names of variables that must not be written
  std::string image;
  std::vector<std::string> binds;
  std::string container_gpu;
  std::vector<std::string> container_args;
  std::string container_runtime;
  std::string container_cache;

  // Value of a directive; empty if it is absent.
  std::string directive(std::string_view option) const;
  int workers() const { return nodes * workers_per_node; }
};

// Reads the file or URL that is the value of a key.
using ReadText = std::function<std::string(const std::string& key, const std::string& where)>;

// Additional input of make_job().
struct JobInputs {
  std::string lockstep;  // path of this executable
  // Step and checkpoint times of the previous run with this job name.
  std::function<contract::Pace(const std::string& name)> earlier_pace;
  ReadText read_text;
};

// Throws an Error (64) with the source of an invalid value.
Job make_job(const JobSettings& settings, const JobInputs& inputs);

// Names and values of the secret variables. They are passed in the environment of sbatch.
Pairs secrets_of(const JobSettings& settings);

}  // namespace lockstep::slurm
