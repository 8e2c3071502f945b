// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <fmt/format.h>
#include <vector>

#include "common/base/text.h"
#include "launcher/slurm/batch_script.h"
#include "launcher/slurm/shell_command.h"
#include "launcher/slurm/shell_text.h"

// The launch commands of all launchers. Values that only a task knows, such as its rank, are
// expanded in the single quotes of a `bash -c`; the batch script expands everything else.
namespace lockstep::slurm {
namespace {

using Lines = std::vector<std::string>;

bool is_python(const Job& job) {
  return look_at_command(job.program).first_word.ends_with(".py");
}

// "apptainer exec --nv ... image"; empty without a container.
std::string container_of(const Job& job) {
  if (job.environment != EnvironmentKind::Apptainer) {
    return "";
  }
  std::string text = job.container_runtime + " exec ";
  if (job.container_gpu != "none") {
    text += fmt::format("--{} ", job.container_gpu);
  }
  for (const std::string& bind : job.binds) {
    text += fmt::format("--bind {} ", in_quotes(bind));
  }
  for (const std::string& argument : job.container_args) {
    text += in_quotes(argument) + " ";
  }
  return text + in_quotes(job.image) + " ";
}

std::string profile_of(const Job& job) {
  return job.profile_hertz == 0 ? ""
                                : fmt::format(
                                      "py-spy record --subprocesses --rate {} --output "
                                      "\"py-spy-$SLURM_JOB_ID.svg\" -- \\\n  ",
                                      job.profile_hertz);
}

// Command line of a worker.
std::string worker_of(const Job& job) {
  const std::string python = is_python(job) ? job.python + " -u " : "";
  return container_of(job) + python + job.program;
}

// Command line of a worker after torchrun, which starts Python itself.
std::string torch_program_of(const Job& job) {
  return (is_python(job) ? "" : "--no_python ") + job.program;
}

// Appends extra options on a separate line.
void append(Lines& lines, const Lines& more) {
  std::string line;
  for (const std::string& one : more) {
    line += (line.empty() ? "" : " ") + in_quotes(one);
  }
  if (!line.empty()) {
    lines.push_back(line);
  }
}

// The srun command. It repeats --cpus-per-task because srun does not inherit it from the job.
Lines srun_of(const Job& job, int tasks_per_node) {
  const int cpus = tasks_per_node == job.tasks_per_node
                       ? job.cpus_per_task
                       : std::max(1, job.cpus_per_task * job.tasks_per_node / tasks_per_node);
  Lines lines = {fmt::format("srun --nodes={} --ntasks={} --ntasks-per-node={} --cpus-per-task={}",
                             job.nodes,
                             job.nodes * tasks_per_node,
                             tasks_per_node,
                             cpus),
                 "--distribution=block --cpu-bind=none --kill-on-bad-exit=1 --input=none"};
  if (!job.mpi.empty()) {
    lines.push_back("--mpi=" + in_quotes(job.mpi));
  }
  append(lines, job.srun_args);
  return lines;
}

// Probes the network between the nodes and exports MASTER_ADDR and related variables.
std::string render_network(const Job& job) {
  const std::string interface =
      job.interface.empty() ? "" : " --interface " + in_quotes(job.interface);
  return fmt::format(
      "lockstep={}\n"
      "network=$(\"$lockstep\" network{}) || fail 'no common network between the nodes'\n"
      "eval \"$network\"\n",
      in_quotes(job.lockstep),
      interface);
}

// A static rendezvous: nodes and ranks are known from Slurm, so that no etcd or c10d backend is
// needed.
std::string torchrun_of(const Job& job) {
  std::string text = fmt::format("{}torchrun --nnodes={} --nproc_per_node={} --rdzv_backend=static",
                                 container_of(job),
                                 job.nodes,
                                 job.workers_per_node);
  for (const std::string& argument : job.launcher_args) {
    text += " " + in_quotes(argument);
  }
  return text;
}

constexpr const char* kStatus = "status=$?\n";

// Waits for the end of a process while traps can run. `wait` alone is not sufficient: if a trap
// interrupts it while bash reaps the process, the exit code is lost. This race is likely, because
// Slurm sends SIGTERM to the script of a requeued job at the moment when `lockstep run` exits. So
// the script polls until the process has ended, ignores the signals, and only then calls `wait`,
// which returns the exit code that bash has stored.
std::string wait_for(const char* variable) {
  return fmt::format(
      "while kill -0 \"${0}\" 2>/dev/null; do\n"
      "  sleep 1 # traps run after each sleep\n"
      "done\n"
      "trap '' USR1 TERM # a trap during wait could lose the exit code\n"
      "wait \"${0}\"\n"
      "status=$?\n"
      "trap : USR1\n"
      "trap - TERM\n",
      variable);
}

std::string trap_of(const Job& job) {
  return fmt::format(
      "# Slurm sends USR1 before the time limit. scancel passes SIGTERM to the workers,\n"
      "# which save and exit. (A signal to srun would kill them.)\n"
      "time_is_up=\n"
      "trap 'time_is_up=yes; scancel --signal=TERM \"{}\"' USR1\n",
      id_of(job));
}

// Renders a command that starts the workers and stores its exit code in $status.
std::string waited(const Job& job, Lines lines) {
  if (job.signal_seconds == 0) {
    return continued(lines) + kStatus;
  }
  lines.back() += " &";
  return trap_of(job) + continued(lines) + "step=$!\n" + wait_for("step");
}

// Renders exec_command. With requeue it runs in the background, because bash handles the time limit
// signal only between commands.
std::string render_own_command(const Job& job) {
  if (!job.is_requeued) {
    return job.exec_command + "\n" + kStatus;
  }
  return trap_of(job) + "{\n" + job.exec_command + "\n} &\nstep=$!\n" + wait_for("step");
}

constexpr const char* kTorchrunMeets =
    R"(--master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT")";

// Slurm signals the process of the batch script, but bash runs traps only after a foreground
// program has ended. Therefore `lockstep run` replaces bash with `exec`. If commands follow, it
// runs in the background, and traps forward the signals to it.
std::string render_lockstep(const Job& job) {
  const bool is_last = is_replaced(job);
  Lines lines = {fmt::format("{}{}\"$lockstep\" run --nproc-per-node {} --run-dir {}",
                             is_last ? "exec " : "",
                             profile_of(job),
                             job.workers_per_node,
                             in_quotes(job.run_dir))};
  if (!job.interface.empty()) {
    lines.push_back("--network-interfaces " + in_quotes(job.interface));
  }
  if (job.is_requeued) {
    lines.push_back("--requeue" +
                    (job.max_requeues ? fmt::format(" --max-requeues {}", *job.max_requeues) : ""));
  }
  for (const std::string& metric : job.metrics) {
    lines.push_back("--metric " + quote_for_shell(metric));
  }
  append(lines, job.launcher_args);
  // lockstep starts *.py files itself, except in a container, which it cannot inspect.
  const bool is_ours =
      is_python(job) && job.environment != EnvironmentKind::Apptainer && job.python == "python3";
  lines.push_back("-- " + (is_ours ? job.program : worker_of(job)));
  const std::string head = fmt::format("lockstep={}\n", in_quotes(job.lockstep));
  if (is_last) {
    return head + continued(lines);
  }
  if (job.signal_seconds == 0) {
    return head + continued(lines) + kStatus;
  }
  lines.back() += " &";
  return head + continued(lines) +
         "run=$!\n"
         "trap 'kill -USR1 \"$run\"' USR1\n"
         "trap 'kill -TERM \"$run\" 2>/dev/null' TERM\n" +
         wait_for("run");
}

std::string render_torchrun(const Job& job) {
  Lines lines = srun_of(job, 1);
  lines.front() = profile_of(job) + lines.front();
  lines.emplace_back("bash -c 'PET_NODE_RANK=$SLURM_NODEID exec \"$@\"' torchrun");
  lines.push_back(torchrun_of(job));
  lines.emplace_back(kTorchrunMeets);
  lines.push_back(torch_program_of(job));
  return render_network(job) + waited(job, lines);
}

// mpirun only forwards variables with -x NAME, so collect one for each network variable.
constexpr const char* kExports =
    "mapfile -t exports < <(sed -n 's/^export \\([A-Z_0-9]*\\)=.*/-x\\n\\1/p' <<<\"$network\")\n";

Lines mpirun_of(const Job& job, int processes_per_node) {
  Lines lines = {
      fmt::format("mpirun -np {} --map-by ppr:{}:node --bind-to none \"${{exports[@]}}\"",
                  job.nodes * processes_per_node,
                  processes_per_node)};
  for (const auto& [name, value] : job.variables) {
    lines.back() += " -x " + name;
  }
  for (const std::string& name : job.secrets) {
    lines.back() += " -x " + name;
  }
  return lines;
}

std::string render_mpirun_torchrun(const Job& job) {
  Lines lines = mpirun_of(job, 1);
  lines.front() = profile_of(job) + lines.front();
  lines.emplace_back("bash -c 'PET_NODE_RANK=$OMPI_COMM_WORLD_RANK exec \"$@\"' torchrun");
  lines.push_back(torchrun_of(job));
  lines.emplace_back(kTorchrunMeets);
  lines.push_back(torch_program_of(job));
  return render_network(job) + kExports + continued(lines) + kStatus;
}

// Shell names of rank, local rank and node of a task. worker_of_task() exports them as the
// variables of torch.distributed, which other frameworks also read.
struct TaskWords {
  const char* rank;
  const char* local_rank;
  const char* node;
};

std::string worker_of_task(const TaskWords& task, const Job& job) {
  return fmt::format(
      "export RANK=${} LOCAL_RANK=${} GROUP_RANK={} WORLD_SIZE={} LOCAL_WORLD_SIZE={}",
      task.rank,
      task.local_rank,
      task.node,
      job.workers(),
      job.workers_per_node);
}

constexpr TaskWords kSlurmTask{
    .rank = "SLURM_PROCID", .local_rank = "SLURM_LOCALID", .node = "$SLURM_NODEID"};

std::string render_mpirun(const Job& job) {
  const std::string node = fmt::format("$((OMPI_COMM_WORLD_RANK / {}))", job.workers_per_node);
  Lines lines = mpirun_of(job, job.workers_per_node);
  append(lines, job.launcher_args);
  lines.push_back(fmt::format("bash -c '{}; exec \"$@\"' worker",
                              worker_of_task({.rank = "OMPI_COMM_WORLD_RANK",
                                              .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                                              .node = node.c_str()},
                                             job)));
  lines.push_back(profile_of(job) + worker_of(job));
  return render_network(job) + kExports + continued(lines) + kStatus;
}

std::string render_srun(const Job& job) {
  Lines lines = srun_of(job, job.workers_per_node);
  append(lines, job.launcher_args);
  lines.push_back(fmt::format("bash -c '{}; exec \"$@\"' worker", worker_of_task(kSlurmTask, job)));
  lines.push_back(profile_of(job) + worker_of(job));
  return render_network(job) + waited(job, lines);
}

// horovodrun starts its workers by ssh on the addresses that the network probe has found, not by
// srun.
std::string render_horovodrun(const Job& job) {
  Lines lines = {
      fmt::format("{}horovodrun -np {} -H \"$hosts\" ${{GLOO_SOCKET_IFNAME:+--network-interfaces "
                  "\"$GLOO_SOCKET_IFNAME\"}}",
                  profile_of(job),
                  job.workers())};
  append(lines, job.launcher_args);
  lines.push_back(worker_of(job));
  return render_network(job) +
         fmt::format("hosts=$(printf '%s:{},' $LOCKSTEP_ADDRESSES)\nhosts=${{hosts%,}}\n",
                     job.workers_per_node) +
         continued(lines) + kStatus;
}

// `wait -n` returns when any step ends. A trap interrupts it with 128 + the signal, which must not
// count as the end of a step.
constexpr const char* kWaitForAll = R"(# The first failure ends all steps.
left=${#steps[@]}
while ((left > 0)); do
  wait -n
  code=$?
  if ((code == 128 + $(kill -l USR1))); then
    continue # interrupted by the trap
  fi
  ((left -= 1))
  if ((code != 0 && status == 0)); then
    status=$code
    [[ ${time_is_up:-} ]] || kill "${steps[@]}" 2>/dev/null
  fi
done
)";

// As in the documentation of torch.distributed.launch: one srun per node, in the background.
// The number of steps started so far is the node rank.
std::string render_loop(const Job& job) {
  const std::string gpus =
      job.gpus_per_node == 0 ? "" : fmt::format(" --gpus-per-node={}", job.gpus_per_node);
  Lines lines = {
      fmt::format("  srun --nodes=1 --ntasks=1 --cpus-per-task={}{} --nodelist=\"$node\"",
                  job.cpus_per_task,
                  gpus),
      "  --cpu-bind=none --kill-on-bad-exit=1 --input=none"};
  append(lines, job.srun_args);
  lines.push_back(
      fmt::format("  {}{} -m torch.distributed.launch --use_env", container_of(job), job.python));
  lines.push_back(fmt::format("  --nnodes={} --nproc_per_node={} --node_rank=\"${{#steps[@]}}\"",
                              job.nodes,
                              job.workers_per_node));
  lines.push_back(fmt::format("  {}", kTorchrunMeets));
  append(lines, job.launcher_args);
  lines.push_back("  " + torch_program_of(job) + " &");
  std::string text = render_network(job);
  text += job.signal_seconds > 0 ? trap_of(job) : "";
  text += "steps=()\nstatus=0\nfor node in $LOCKSTEP_NODES; do\n" + continued(lines);
  text += "  steps+=(\"$!\")\ndone\n";
  return text + kWaitForAll;
}

// TF_CONFIG differs between tasks only in the index, so the list of workers is computed once, in
// the script, and each task completes the JSON. 180 blocks of 64 ports fit between 20000 and 31519.
std::string render_tensorflow(const Job& job) {
  Lines lines = srun_of(job, job.workers_per_node);
  append(lines, job.launcher_args);
  lines.push_back(fmt::format(
      "bash -c '{}; export TF_CONFIG=\"{{\\\"cluster\\\":{{\\\"worker\\\":[$TF_WORKERS]}},"
      "\\\"task\\\":{{\\\"type\\\":\\\"worker\\\",\\\"index\\\":$SLURM_PROCID}}}}\"; exec \"$@\"' "
      "worker",
      worker_of_task(kSlurmTask, job)));
  lines.push_back(profile_of(job) + worker_of(job));
  std::string text = render_network(job);
  // Ports below the ephemeral range, different for other jobs on the same node.
  text += fmt::format(
      "TF_WORKERS=$(for address in $LOCKSTEP_ADDRESSES; do\n"
      "  for ((i = 0; i < {}; i++)); do\n"
      "    printf '\"%s:%d\",' \"$address\" $((20000 + SLURM_JOB_ID % 180 * 64 + i))\n"
      "  done\n"
      "done)\n"
      "export TF_WORKERS=${{TF_WORKERS%,}}\n",
      job.workers_per_node);
  return text + waited(job, lines);
}

std::string render_by(const Job& job) {
  if (!job.exec_command.empty()) {
    return render_own_command(job);
  }
  switch (job.launcher) {
    case Launcher::Lockstep:
      return render_lockstep(job);
    case Launcher::Torchrun:
      return render_torchrun(job);
    case Launcher::MpirunTorchrun:
      return render_mpirun_torchrun(job);
    case Launcher::Srun:
      return render_srun(job);
    case Launcher::Mpirun:
      return render_mpirun(job);
    case Launcher::Horovodrun:
      return render_horovodrun(job);
    case Launcher::Loop:
      return render_loop(job);
    case Launcher::Tensorflow:
      return render_tensorflow(job);
  }
  return "";
}

}  // namespace

std::string render_launch(const Job& job) {
  // Without pipefail, a pipe hides the exit code of the training.
  const bool has_pipe = look_at_command(job.program).has_pipe;
  return (has_pipe ? "set -o pipefail\n" : "") + render_by(job);
}

}  // namespace lockstep::slurm
