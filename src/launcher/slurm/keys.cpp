// SPDX-License-Identifier: Apache-2.0
//
// One table for the YAML keys, the options of `lockstep submit`, their help and their defaults.
// Fields of an entry: name, type, group in --help, type name, help text, default. An empty
// default means "not set". Defaults can refer to other keys. The order within a group is the order
// of --help.
#include "launcher/slurm/keys.h"

#include <algorithm>
#include <array>

namespace lockstep::slurm {
namespace {

using enum KeyType;
using enum KeyGroup;

constexpr auto kKeys = std::to_array<Key>({
    {"job_name",
     Text,
     Job,
     "NAME",
     "Name of the job [STRATEGY-NODESxGPUS]",
     "${distributed_strategy}-${num_nodes}x${gpus_per_node}"},
    {"account", Text, Job, "NAME", "Account to charge", ""},
    {"partition", Text, Job, "NAME", "Partition (queue)", ""},
    {"time", Text, Job, "TIME", "Time limit: MINUTES, HH:MM:SS or D-HH:MM:SS", "00:30:00"},
    {"qos", Text, Job, "NAME", "Quality of service", ""},
    {"reservation", Text, Job, "NAME", "Name of the reservation", ""},
    {"dependency", Text, Job, "TEXT", "Dependency on other jobs, as for sbatch: afterok:123", ""},
    {"array", Text, Job, "LIST", "Job array: 0-15%4", ""},
    {"begin", Text, Job, "TIME", "Earliest start time: 20:00, now+1hour", ""},
    {"mail_user", Text, Job, "ADDRESS", "Mail address for notifications", ""},
    {"mail_type", List, Job, "LIST", "Events to notify about: BEGIN,END,FAIL,TIME_LIMIT_80", ""},
    {"comment", Text, Job, "TEXT", "Comment to store with the job", ""},
    {"std_out",
     Text,
     Job,
     "FILE",
     "Output file of the job; the job id is added unless it contains %j "
     "[slurm-job-logs/NAME-JOBID.out]",
     "slurm-job-logs/${job_name}.out"},
    {"err_out",
     Text,
     Job,
     "FILE",
     "Error file of the job; can be the same as std_out [slurm-job-logs/NAME-JOBID.err]",
     "slurm-job-logs/${job_name}.err"},
    {"sbatch", Lines, Job, "OPTION", "Extra sbatch option, --name=value; can be repeated", ""},
    {"site", Text, Job, "NAME", "Site profile [matched by host name]", ""},

    {"num_nodes", Whole, Resources, "COUNT", "Number of nodes", "1"},
    {"gpus_per_node", Whole, Resources, "COUNT", "GPUs per node; 0 for none", "4"},
    {"gpu_type", Text, Resources, "NAME", "GPU type: a100", ""},
    {"gpu_request",
     Text,
     Resources,
     "HOW",
     "GPU request option: gpus-per-node, gres, gpus-per-task or none",
     "gpus-per-node"},
    {"gres", Text, Resources, "LIST", "Additional generic resources: nvme:100", ""},
    {"workers_per_node",
     Whole,
     Resources,
     "COUNT",
     "Workers per node [gpus_per_node, or num_tasks_per_node without GPUs]",
     ""},
    {"num_tasks_per_node",
     Whole,
     Resources,
     "COUNT",
     "Slurm tasks per node [depends on the launcher]",
     ""},
    {"num_tasks", Whole, Resources, "COUNT", "Total Slurm tasks [nodes x tasks per node]", ""},
    {"cpus_per_task",
     Whole,
     Resources,
     "COUNT",
     "Cores per task; divided among the workers if each worker is a task",
     "16"},
    {"memory", Text, Resources, "SIZE", "Memory per node: 64G, or 0 for all of it", "16G"},
    {"constraint", Text, Resources, "TEXT", "Required node features: v100, 'a&b'", ""},
    {"nodelist", Text, Resources, "LIST", "Nodes to run on", ""},
    {"exclude", Text, Resources, "LIST", "Nodes to exclude", ""},
    {"exclusive", Flag, Resources, "", "Request whole nodes", "false"},

    {"distributed_strategy",
     Text,
     Program,
     "NAME",
     "Strategy: ddp, horovod, deepspeed or mirrored",
     "ddp"},
    {"launcher",
     Text,
     Program,
     "NAME",
     "Program that starts the workers: lockstep, torchrun, mpirun-torchrun, srun, mpirun, "
     "horovodrun, loop or tensorflow",
     "lockstep"},
    {"training_cmd",
     Text,
     Program,
     "COMMAND",
     "Training program and its arguments; {key} is replaced",
     ""},
    {"exec_command", Text, Program, "SHELL", "Shell code that replaces the launch command", ""},
    {"exec_file", Text, Program, "FILE", "File or URL to read exec_command from", ""},
    {"pre_exec_command", Text, Program, "SHELL", "Shell code to run before the training", ""},
    {"pre_exec_file", Text, Program, "FILE", "File or URL to read pre_exec_command from", ""},
    {"post_exec_command",
     Text,
     Program,
     "SHELL",
     "Shell code to run after the training, even if it failed",
     ""},
    {"launcher_args", Lines, Program, "OPTION", "Extra launcher option; can be repeated", ""},
    {"metric",
     Lines,
     Program,
     "NAME=REGEX",
     "Metric to extract from the output of the workers; can be repeated",
     ""},
    {"srun_args", Lines, Program, "OPTION", "Extra srun option; can be repeated", ""},
    {"mpi", Text, Program, "TYPE", "MPI type for srun: pmix, pmi2", ""},
    {"interface",
     Text,
     Program,
     "NAME",
     "Network interface between nodes [fastest working one]",
     ""},
    {"run_dir",
     Text,
     Program,
     "DIR",
     "Run directory [runs/NAME-JOBID]",
     "runs/${job_name}-$SLURM_JOB_ID"},
    {"lockstep", Text, Program, "FILE", "Path of lockstep on the nodes [this executable]", ""},

    {"environment",
     Text,
     Environment,
     "KIND",
     "Environment: none, venv, conda, modules or apptainer [from the other keys]",
     ""},
    {"modules", List, Environment, "LIST", "Modules to load, in order", ""},
    {"module_use", List, Environment, "LIST", "Additional module directories", ""},
    {"module_purge", Flag, Environment, "", "Unload all modules first", "true"},
    {"python_venv", Text, Environment, "DIR", "Python virtual environment", ""},
    {"conda_env", Text, Environment, "NAME", "Conda environment", ""},
    {"conda_activate",
     Text,
     Environment,
     "FILE",
     "Path of bin/activate of Conda [conda in PATH]",
     ""},
    {"python", Text, Environment, "NAME", "Interpreter for *.py programs", "python3"},
    {"env",
     Map,
     Environment,
     "NAME=VALUE",
     "Environment variable for the job; can be repeated",
     ""},
    {"http_proxy", Text, Environment, "URL", "Proxy for HTTP", ""},
    {"https_proxy", Text, Environment, "URL", "Proxy for HTTPS", ""},
    {"no_proxy", Text, Environment, "LIST", "Hosts to reach without a proxy", ""},

    {"container_path", Text, Container, "FILE", "Apptainer image", ""},
    {"container_binds", List, Container, "LIST", "Bind mounts: SOURCE[:TARGET[:ro]]", ""},
    {"container_gpu",
     Text,
     Container,
     "KIND",
     "GPU support in the container: nv, rocm or none",
     "nv"},
    {"container_args",
     Lines,
     Container,
     "OPTION",
     "Extra option of apptainer exec; can be repeated",
     ""},
    {"container_runtime",
     Text,
     Container,
     "NAME",
     "Container runtime: apptainer or singularity",
     "apptainer"},
    {"container_cache", Text, Container, "DIR", "Value of APPTAINER_CACHEDIR", ""},

    {"requeue",
     Flag,
     Requeue,
     "",
     "Save a checkpoint before the time limit and requeue the job",
     "false"},
    {"signal_seconds",
     Whole,
     Requeue,
     "SECONDS",
     "Time between the warning signal and the time limit [from previous runs]",
     ""},
    {"max_requeues", Whole, Requeue, "COUNT", "Maximum number of requeues", ""},

    {"mode",
     Text,
     Itwinai,
     "MODE",
     "Jobs to create: single, runall (one per strategy) or scaling-test (one per strategy and "
     "node count)",
     "single"},
    {"scalability_nodes", List, Itwinai, "LIST", "Node counts for scaling-test", "1,2,4,8"},
    {"config_name", Text, Itwinai, "NAME", "Value of {config_name} in training_cmd", "config"},
    {"config_path", Text, Itwinai, "DIR", "Value of {config_path} in training_cmd", "."},
    {"pipe_key", Text, Itwinai, "NAME", "Value of {pipe_key} in training_cmd", "training_pipeline"},
    {"run_name", Text, Itwinai, "NAME", "Value of {run_name} in training_cmd", "main-run"},
    {"py_spy", Flag, Itwinai, "", "Profile with py-spy", "false"},
    {"profiling_sampling_rate",
     Whole,
     Itwinai,
     "HERTZ",
     "Sampling rate of py-spy, per second",
     "10"},
    {"use_ray", Flag, Hidden, "", "Not supported: Ray starts its own workers", "false"},
    {"itwinai_trainer",
     Flag,
     Hidden,
     "",
     "Accepted for compatibility with itwinai; ignored",
     "false"},
    {"save_script", Flag, Itwinai, "", "Save the script in save_dir", ""},
    {"submit_job", Flag, Itwinai, "", "Submit the job", ""},
    {"save_dir", Text, Itwinai, "DIR", "Directory for saved scripts", "slurm-scripts"},
});

}  // namespace

std::span<const Key> keys() {
  return kKeys;
}

const Key* find_key(std::string_view name) {
  const auto* found =
      std::find_if(kKeys.begin(), kKeys.end(), [name](const Key& key) { return key.name == name; });
  return found == kKeys.end() ? nullptr : found;
}

// Built once, on first use; initialization of a local static is thread-safe.
const std::vector<std::string>& key_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    names.reserve(kKeys.size());
    for (const Key& key : kKeys) {
      names.emplace_back(key.name);
    }
    return names;
  }();
  return kNames;
}

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string_view heading_of(KeyGroup group) {
  switch (group) {
    case Job:
      return "Job";
    case Resources:
      return "Resources";
    case Program:
      return "Program";
    case Environment:
      return "Environment";
    case Container:
      return "Container";
    case Requeue:
      return "Time limit";
    case Itwinai:
      return "itwinai compatibility";
    case Hidden:
      break;
  }
  return "";
}

}  // namespace lockstep::slurm
