// SPDX-License-Identifier: Apache-2.0
//
// From settings (text with sources) to a Job (checked values). The order matters:
//
//   launcher, strategy, name
//   sizes          tasks depend on the launcher: one per node or one per worker
//   time           the lead time needs the name, to find earlier runs
//   environment, variables
//   program        checks depend on sizes, time and launcher
//   directives     depend on everything above
#include "launcher/slurm/job.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/strategy_kind.h"
#include "launcher/plan/metric.h"
#include "launcher/slurm/check_program.h"
#include "launcher/slurm/directives.h"
#include "launcher/slurm/lead_time.h"
#include "launcher/slurm/time_limit.h"
#include "launcher/slurm/variables.h"

namespace lockstep::slurm {
namespace {

constexpr int kMaxNodes = 100'000;
constexpr int kMaxPerNode = 4096;

// Variables of the job: those of `env`, and the proxies in lower and upper case.
Pairs all_variables(const JobSettings& settings) {
  Pairs variables = settings.pairs("env");
  for (const char* name : {"http_proxy", "https_proxy", "no_proxy"}) {
    if (const auto value = settings.find_text(name)) {
      add_proxy(variables, name, *value);
    }
  }
  return variables;
}

void read_variables(const JobSettings& settings, Job& job) {
  const Pairs variables = all_variables(settings);
  require_names(variables, settings.source_of("env"));
  take_variables(variables, job);
}

// Each worker is a Slurm task. num_tasks_per_node: 1 is the value in most files written for
// torchrun; together with a launcher that needs one task per worker it counts as not given.
// cpus_per_task is then the budget of the node and is divided.
void make_tasks_of_workers(const JobSettings& settings, std::optional<int> tasks, Job& job) {
  const bool is_said = tasks.value_or(1) > 1;
  job.tasks_per_node = is_said ? *tasks : job.workers_per_node;
  if (!is_said) {
    job.cpus_per_task = std::max(1, job.cpus_per_task / job.workers_per_node);
  }
  if (job.tasks_per_node != job.workers_per_node) {
    const bool has_workers = settings.has("workers_per_node");
    throw settings.refuse("num_tasks_per_node", "this launcher needs one task per worker")
        .fact("workers",
              fmt::format("{} per node", job.workers_per_node),
              settings.source_of(has_workers ? "workers_per_node" : "gpus_per_node"))
        .fact("launcher", name_of(job.launcher), settings.source_of("launcher"))
        .hint(fmt::format("num_tasks_per_node: {}, or omit it", job.workers_per_node));
  }
}

// The agent of `lockstep run` or torchrun is one Slurm task per node and starts all workers of the
// node, so that it needs the CPUs of all of them.
void read_sizes(const JobSettings& settings, Job& job) {
  job.nodes = settings.find_whole("num_nodes", 1, kMaxNodes).value();
  job.gpus_per_node = settings.find_whole("gpus_per_node", 0, kMaxPerNode).value();
  const auto tasks = settings.find_whole("num_tasks_per_node", 1, kMaxPerNode);
  const auto workers = settings.find_whole("workers_per_node", 1, kMaxPerNode);
  const int gpus_or_tasks = job.gpus_per_node > 0 ? job.gpus_per_node : tasks.value_or(1);
  job.workers_per_node = workers.value_or(gpus_or_tasks);
  job.cpus_per_task = settings.find_whole("cpus_per_task", 1, kMaxPerNode).value();
  if (has_task_per_worker(job.launcher)) {
    make_tasks_of_workers(settings, tasks, job);
    return;
  }
  job.tasks_per_node = 1;
  if (job.gpus_per_node == 0 && !workers) {
    job.cpus_per_task *= tasks.value_or(1);  // the task of the agent gets the cores of all workers
  }
}

// Job files count either tasks or workers here: both readings are accepted.
void check_tasks(const JobSettings& settings, const Job& job) {
  const auto tasks = settings.find_whole("num_tasks", 1, kMaxNodes);
  if (tasks && *tasks != job.nodes * job.tasks_per_node && *tasks != job.workers()) {
    throw settings.refuse("num_tasks", "num_tasks does not match nodes and workers")
        .fact("nodes", std::to_string(job.nodes), settings.source_of("num_nodes"))
        .fact("tasks",
              fmt::format("{} per node", job.tasks_per_node),
              settings.source_of("num_tasks_per_node"))
        .hint(fmt::format("num_tasks: {}, or omit it", job.nodes * job.tasks_per_node));
  }
}

// mpirun and horovodrun kill all ranks on the first signal, so that no checkpoint could be written
// before the requeue. Slurm stores the lead time in 16 bits, hence the maximum.
void read_time(const JobSettings& settings, const JobInputs& inputs, Job& job) {
  const std::string time = settings.text("time");
  const auto limit = find_time_limit(time);
  if (!limit) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for time", time))
        .fact("expected", "MINUTES, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS")
        .fact("found", fmt::format("'{}'", time), settings.source_of("time"))
        .hint("time: 00:30:00");
  }
  job.seconds = *limit == kUnlimited ? 0 : *limit;
  job.is_requeued = settings.flag("requeue");
  const bool is_deaf = job.launcher == Launcher::Mpirun ||
                       job.launcher == Launcher::MpirunTorchrun ||
                       job.launcher == Launcher::Horovodrun;
  if (job.is_requeued && is_deaf) {
    throw settings
        .refuse("requeue", "requeue is not supported: the launcher kills workers without warning")
        .fact("launcher", name_of(job.launcher), settings.source_of("launcher"))
        .hint("launcher: lockstep, torchrun or srun");
  }
  job.max_requeues = settings.find_whole("max_requeues", 1, 1'000'000);
  const auto requested = settings.find_whole("signal_seconds", 0, 65535);
  if (requested) {
    job.signal_seconds = *requested;
  } else if (job.is_requeued) {
    const contract::Pace pace = inputs.earlier_pace(job.name);
    job.signal_seconds = job.seconds == 0 ? lead_seconds(pace)
                                          : lead_seconds(pace, static_cast<double>(job.seconds));
  }
  if (job.seconds > 0 && job.signal_seconds >= job.seconds) {
    throw Error(ExitCode::Usage, "signal_seconds must be shorter than the time limit")
        .fact("warning",
              fmt::format("{} s before the limit", job.signal_seconds),
              settings.source_of("signal_seconds"))
        .fact("limit", fmt::format("{} s", job.seconds), settings.source_of("time"))
        .hint("use a longer time or a shorter signal_seconds");
  }
}

// A trailing line break would separate the command from the text that the script appends.
std::string without_end(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

std::string text_or_file(const JobSettings& settings,
                         const JobInputs& inputs,
                         const char* text,
                         const char* file) {
  const auto path = settings.find_text(file);
  std::string found = settings.text(text);
  if (path && !found.empty()) {
    throw settings.refuse(file, fmt::format("{} and {} exclude each other", text, file))
        .fact("requested", fmt::format("{}: ...", text), settings.source_of(text))
        .hint("remove one of them");
  }
  if (path) {
    found = inputs.read_text(file, *path);
  }
  return without_end(std::move(found));
}

// Without training_cmd, the job runs a pipeline of itwinai with its usual command line.
constexpr const char* kItwinaiProgram =
    "{itwinai_launcher} exec-pipeline --config-name={config_name} --config-path={config_path} "
    "--strategy={distributed_strategy} --run-name={run_name} +pipe_key={pipe_key}";

// Parsed here so that a mistake is reported before the job is submitted.
std::vector<std::string> read_metric_lines(const JobSettings& settings, Launcher launcher) {
  std::vector<std::string> lines = settings.lines("metric");
  if (!lines.empty() && launcher != Launcher::Lockstep) {
    throw settings.refuse("metric", "metric requires launcher: lockstep")
        .hint("launcher: lockstep");
  }
  std::vector<plan::OptionValue> requested;
  requested.reserve(lines.size());
  for (const std::string& line : lines) {
    requested.push_back({.text = line, .source = settings.source_of("metric"), .flag = ""});
  }
  plan::read_metrics(requested);
  return lines;
}

void read_program(const JobSettings& settings, const JobInputs& inputs, Job& job) {
  if (settings.flag("use_ray")) {
    throw settings.refuse("use_ray", "use_ray is not supported")
        .hint("use_ray: false, or an exec_command that starts Ray");
  }
  job.program =
      without_end(settings.fill_in(settings.find_text("training_cmd").value_or(kItwinaiProgram)));
  job.exec_command = settings.fill_in(text_or_file(settings, inputs, "exec_command", "exec_file"));
  job.before = text_or_file(settings, inputs, "pre_exec_command", "pre_exec_file");
  job.after = settings.text("post_exec_command");
  job.launcher_args = settings.lines("launcher_args");
  job.metrics = read_metric_lines(settings, job.launcher);
  job.srun_args = settings.lines("srun_args");
  job.mpi = settings.text("mpi");
  job.interface = settings.text("interface");
  job.run_dir = settings.text("run_dir");
  job.python = settings.text("python");
  job.lockstep = settings.find_text("lockstep").value_or(inputs.lockstep);
  if (settings.flag("py_spy")) {
    if (!contract::supports_py_spy(job.strategy)) {
      throw settings.refuse("py_spy", fmt::format("py_spy does not support {}", job.strategy))
          .hint("py_spy: false");
    }
    // The signal would reach py-spy instead of the launcher and kill it.
    if (job.launcher == Launcher::Lockstep && job.signal_seconds > 0) {
      throw settings.refuse("py_spy", "py_spy and the time limit signal exclude each other")
          .fact("warning",
                fmt::format("{} s before the limit", job.signal_seconds),
                settings.source_of(settings.has("signal_seconds") ? "signal_seconds" : "requeue"))
          .hint("py_spy: false, or remove requeue and signal_seconds");
    }
    job.profile_hertz = settings.find_whole("profiling_sampling_rate", 1, 10'000).value();
  }
}

// Without `environment`, the most specific key decides. A container has precedence over a virtual
// environment, since the latter is then usually a path inside the image.
EnvironmentKind read_environment_kind(const JobSettings& settings) {
  static const std::vector<std::string> kNames = {"none", "venv", "conda", "modules", "apptainer"};
  if (settings.has("environment")) {
    const std::string name = settings.one_of("environment", kNames);
    return static_cast<EnvironmentKind>(std::find(kNames.begin(), kNames.end(), name) -
                                        kNames.begin());
  }
  if (settings.has("container_path")) {
    return EnvironmentKind::Apptainer;
  }
  if (settings.has("python_venv")) {
    return EnvironmentKind::Venv;
  }
  if (settings.has("conda_env")) {
    return EnvironmentKind::Conda;
  }
  return settings.has("modules") ? EnvironmentKind::Modules : EnvironmentKind::None;
}

// Every kind of environment has one required key.
void require_key(const JobSettings& settings, const char* key) {
  if (settings.list(key).empty()) {
    throw settings.refuse("environment", fmt::format("this environment requires {}", key))
        .hint(fmt::format("{}: ...", key));
  }
}

// Also accepts "GCC OpenMPI CUDA/12", the syntax of `module load`.
std::vector<std::string> read_modules(const JobSettings& settings) {
  std::vector<std::string> names = split(join(settings.list("modules"), " "), ' ');
  std::erase(names, "");
  return names;
}

void read_environment(const JobSettings& settings, Job& job) {
  job.environment = read_environment_kind(settings);
  if (job.environment != EnvironmentKind::None) {
    job.modules = read_modules(settings);
    job.module_use = settings.list("module_use");
    job.is_module_purge = settings.flag("module_purge");
  }
  switch (job.environment) {
    case EnvironmentKind::None:
      break;
    case EnvironmentKind::Venv:
      require_key(settings, "python_venv");
      job.venv = settings.text("python_venv");
      break;
    case EnvironmentKind::Conda:
      require_key(settings, "conda_env");
      job.conda_env = settings.text("conda_env");
      job.conda_activate = settings.text("conda_activate");
      break;
    case EnvironmentKind::Modules:
      require_key(settings, "modules");
      break;
    case EnvironmentKind::Apptainer:
      require_key(settings, "container_path");
      job.image = settings.text("container_path");
      job.binds = settings.list("container_binds");
      job.container_gpu =
          settings.one_of("container_gpu", std::vector<std::string>{"nv", "rocm", "none"});
      job.container_args = settings.lines("container_args");
      job.container_runtime = settings.one_of("container_runtime",
                                              std::vector<std::string>{"apptainer", "singularity"});
      job.container_cache = settings.text("container_cache");
      break;
  }
}

}  // namespace

std::string Job::directive(std::string_view option) const {
  for (const auto& [key, value] : directives) {
    if (key == option) {
      return value;
    }
  }
  return "";
}

Job make_job(const JobSettings& settings, const JobInputs& inputs) {
  Job job;
  job.launcher = launcher_named(settings.one_of("launcher", launcher_names()));
  job.strategy = settings.one_of("distributed_strategy", contract::distributed_strategy_names());
  job.name = settings.text("job_name");
  read_sizes(settings, job);
  check_tasks(settings, job);
  read_time(settings, inputs, job);
  read_environment(settings, job);
  read_variables(settings, job);
  read_program(settings, inputs, job);
  check_program(settings, job);
  const std::vector<std::string> raw = settings.lines("sbatch");
  job.is_array =
      settings.has("array") || std::any_of(raw.begin(), raw.end(), [](const std::string& line) {
        return line.starts_with("--array=");
      });
  job.directives = make_directives(settings, job);
  return job;
}

Pairs secrets_of(const JobSettings& settings) {
  return secrets_among(all_variables(settings));
}

}  // namespace lockstep::slurm
