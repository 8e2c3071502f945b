// SPDX-License-Identifier: Apache-2.0
#include "slurm/keys.h"

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
     "Name of the job",
     "${distributed_strategy}-${num_nodes}x${gpus_per_node}"},
    {"account", Text, Job, "NAME", "Account that is billed", ""},
    {"partition", Text, Job, "NAME", "Partition, also called queue", ""},
    {"time", Text, Job, "TIME", "Time limit: MINUTES, HH:MM:SS or D-HH:MM:SS", "00:30:00"},
    {"qos", Text, Job, "NAME", "Quality of service", ""},
    {"reservation", Text, Job, "NAME", "Reservation to run in", ""},
    {"dependency", Text, Job, "TEXT", "Jobs to wait for, as sbatch writes it: afterok:123", ""},
    {"array", Text, Job, "LIST", "Array of jobs: 0-15%4", ""},
    {"begin", Text, Job, "TIME", "Not before: 20:00, now+1hour", ""},
    {"mail_user", Text, Job, "ADDRESS", "Who gets mail", ""},
    {"mail_type", List, Job, "LIST", "About what: BEGIN,END,FAIL,TIME_LIMIT_80", ""},
    {"comment", Text, Job, "TEXT", "Comment that Slurm keeps with the job", ""},
    {"std_out",
     Text,
     Job,
     "FILE",
     "Log of the job; the job id is put in if %j is not there",
     "slurm-job-logs/${job_name}.out"},
    {"err_out",
     Text,
     Job,
     "FILE",
     "Its errors; the same file as std_out is fine",
     "slurm-job-logs/${job_name}.err"},
    {"sbatch", Lines, Job, "OPTION", "Any other option of sbatch, as --name=value; once each", ""},
    {"site", Text, Job, "NAME", "Site profile [the one whose hosts match this machine]", ""},

    {"num_nodes", Whole, Resources, "COUNT", "Nodes", "1"},
    {"gpus_per_node", Whole, Resources, "COUNT", "GPUs on each node; 0 for none", "4"},
    {"gpu_type", Text, Resources, "NAME", "Type of the GPUs: a100", ""},
    {"gpu_request",
     Text,
     Resources,
     "HOW",
     "How GPUs are asked for: gpus-per-node, gres, gpus-per-task or none",
     "gpus-per-node"},
    {"gres", Text, Resources, "LIST", "Other generic resources: nvme:100", ""},
    {"workers_per_node",
     Whole,
     Resources,
     "COUNT",
     "Workers on each node [its GPUs; else num_tasks_per_node]",
     ""},
    {"num_tasks_per_node",
     Whole,
     Resources,
     "COUNT",
     "Slurm's tasks on each node [as the launcher needs them]",
     ""},
    {"num_tasks", Whole, Resources, "COUNT", "Slurm's tasks in all [nodes x tasks per node]", ""},
    {"cpus_per_task",
     Whole,
     Resources,
     "COUNT",
     "Cores of a task; where each worker is one, shared by a node's workers",
     "16"},
    {"memory", Text, Resources, "SIZE", "Memory on each node: 64G, 0 for all of it", "16G"},
    {"constraint", Text, Resources, "TEXT", "Features that nodes must have: v100, 'a&b'", ""},
    {"nodelist", Text, Resources, "LIST", "Nodes to run on", ""},
    {"exclude", Text, Resources, "LIST", "Nodes to leave out", ""},
    {"exclusive", Flag, Resources, "", "Whole nodes", "false"},

    {"distributed_strategy", Text, Program, "NAME", "ddp, horovod, deepspeed or mirrored", "ddp"},
    {"launcher",
     Text,
     Program,
     "NAME",
     "lockstep, torchrun, mpirun-torchrun, srun, mpirun, horovodrun, loop or tensorflow",
     "lockstep"},
    {"training_cmd",
     Text,
     Program,
     "COMMAND",
     "Training program with its arguments; {key} is replaced",
     ""},
    {"exec_command", Text, Program, "SHELL", "Shell text in place of the launcher's line", ""},
    {"exec_file", Text, Program, "FILE", "The same from a file or URL", ""},
    {"pre_exec_command", Text, Program, "SHELL", "Shell text before the training", ""},
    {"pre_exec_file", Text, Program, "FILE", "The same from a file or URL", ""},
    {"post_exec_command",
     Text,
     Program,
     "SHELL",
     "Shell text after the training, however that ended",
     ""},
    {"launcher_args", Lines, Program, "OPTION", "More options of the launcher; once each", ""},
    {"metric",
     Lines,
     Program,
     "NAME=REGEX",
     "A number that workers print, as lockstep run --metric finds it; once each",
     ""},
    {"srun_args", Lines, Program, "OPTION", "More options of srun; once each", ""},
    {"mpi", Text, Program, "TYPE", "MPI that srun offers the workers: pmix, pmi2", ""},
    {"interface",
     Text,
     Program,
     "NAME",
     "Network interface between nodes [the fastest that works]",
     ""},
    {"run_dir",
     Text,
     Program,
     "DIR",
     "Run directory of lockstep run",
     "runs/${job_name}-$SLURM_JOB_ID"},
    {"lockstep", Text, Program, "FILE", "The launcher on the nodes [this one]", ""},

    {"environment",
     Text,
     Environment,
     "KIND",
     "none, venv, conda, modules or apptainer [what the keys below ask for]",
     ""},
    {"modules", List, Environment, "LIST", "Modules to load, in this order", ""},
    {"module_use", List, Environment, "LIST", "Directories with more modules", ""},
    {"module_purge", Flag, Environment, "", "Unload all modules first", "true"},
    {"python_venv", Text, Environment, "DIR", "Python virtual environment", ""},
    {"conda_env", Text, Environment, "NAME", "Conda environment", ""},
    {"conda_activate", Text, Environment, "FILE", "Conda's bin/activate [conda in PATH]", ""},
    {"python", Text, Environment, "NAME", "Interpreter for *.py", "python3"},
    {"env", Map, Environment, "NAME=VALUE", "Variables for the job; once each", ""},
    {"http_proxy", Text, Environment, "URL", "Proxy for http", ""},
    {"https_proxy", Text, Environment, "URL", "Proxy for https", ""},
    {"no_proxy", Text, Environment, "LIST", "Hosts that are reached without", ""},

    {"container_path", Text, Container, "FILE", "Apptainer image", ""},
    {"container_binds",
     List,
     Container,
     "LIST",
     "Directories to see inside: SOURCE[:TARGET[:ro]]",
     ""},
    {"container_gpu", Text, Container, "KIND", "GPUs inside: nv, rocm or none", "nv"},
    {"container_args", Lines, Container, "OPTION", "More options of apptainer exec; once each", ""},
    {"container_runtime", Text, Container, "NAME", "apptainer or singularity", "apptainer"},
    {"container_cache", Text, Container, "DIR", "APPTAINER_CACHEDIR, outside of the home", ""},

    {"requeue", Flag, Requeue, "", "Save before the time limit, requeue and go on", "false"},
    {"signal_seconds",
     Whole,
     Requeue,
     "SECONDS",
     "Warning before the time limit [from the last run's checkpoints]",
     ""},
    {"max_requeues", Whole, Requeue, "COUNT", "Requeues at most", ""},

    {"mode",
     Text,
     Itwinai,
     "MODE",
     "single, runall (each strategy) or scaling-test (each node count as well)",
     "single"},
    {"scalability_nodes", List, Itwinai, "LIST", "Node counts of scaling-test", "1,2,4,8"},
    {"config_name", Text, Itwinai, "NAME", "{config_name} of training_cmd", "config"},
    {"config_path", Text, Itwinai, "DIR", "{config_path} of training_cmd", "."},
    {"pipe_key", Text, Itwinai, "NAME", "{pipe_key} of training_cmd", "training_pipeline"},
    {"run_name", Text, Itwinai, "NAME", "{run_name} of training_cmd", "main-run"},
    {"py_spy", Flag, Itwinai, "", "Profile with py-spy", "false"},
    {"profiling_sampling_rate", Whole, Itwinai, "HERTZ", "Samples of py-spy a second", "10"},
    {"use_ray", Flag, Itwinai, "", "Refused: Ray starts its own workers", "false"},
    {"itwinai_trainer", Flag, Itwinai, "", "Accepted for old files; means nothing", "false"},
    {"save_script", Flag, Itwinai, "", "Keep the script in save_dir", ""},
    {"submit_job", Flag, Itwinai, "", "Submit the job", ""},
    {"save_dir", Text, Itwinai, "DIR", "Where scripts are kept", "slurm-scripts"},
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
      return "As in itwinai";
  }
  return "";
}

}  // namespace lockstep::slurm
