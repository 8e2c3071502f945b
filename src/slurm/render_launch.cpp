// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <fmt/format.h>
#include <vector>

#include "base/text.h"
#include "slurm/batch_script.h"
#include "slurm/shell_command.h"
#include "slurm/shell_text.h"

// How each launcher starts the workers. What a task must work out for itself (its rank) stands in
// the single quotes of a `bash -c`; everything else is known to the batch script.
namespace lockstep::slurm {
namespace {

using Lines = std::vector<std::string>;

bool is_python(const Job& job) {
  return look_at_command(job.program).first_word.ends_with(".py");
}

// apptainer exec --nv ... image; nothing without a container.
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

// The program as a worker executes it.
std::string worker_of(const Job& job) {
  const std::string python = is_python(job) ? job.python + " -u " : "";
  return container_of(job) + python + job.program;
}

// The same behind torchrun, which knows Python itself.
std::string torch_program_of(const Job& job) {
  return (is_python(job) ? "" : "--no_python ") + job.program;
}

// More options, on a line of their own.
void append(Lines& lines, const Lines& more) {
  std::string line;
  for (const std::string& one : more) {
    line += (line.empty() ? "" : " ") + in_quotes(one);
  }
  if (!line.empty()) {
    lines.push_back(line);
  }
}

// srun's first line, with the cores: it does not take the job's.
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

// The network that all nodes share, by trying; MASTER_ADDR and the like.
std::string render_network(const Job& job) {
  const std::string interface =
      job.interface.empty() ? "" : " --interface " + in_quotes(job.interface);
  return fmt::format(
      "lockstep={}\n"
      "network=$(\"$lockstep\" network{}) || fail 'the nodes do not reach each other'\n"
      "eval \"$network\"\n",
      in_quotes(job.lockstep),
      interface);
}

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

// Waits for a process of the script's to end, whatever signals come meanwhile. Not with `wait`
// alone: a trap that ends it while bash takes the process's end loses how that was, and Slurm sends
// SIGTERM to a script whose job lockstep puts back just when lockstep ends.
std::string wait_for(const char* variable) {
  return fmt::format(
      "while kill -0 \"${0}\" 2>/dev/null; do\n"
      "  sleep 1 # traps run in between\n"
      "done\n"
      "trap '' USR1 TERM # one could lose what wait tells\n"
      "wait \"${0}\"\n"
      "status=$?\n"
      "trap : USR1\n"
      "trap - TERM\n",
      variable);
}

std::string trap_of(const Job& job) {
  return fmt::format(
      "# Slurm sends USR1 before the time limit: the workers shall save and end. (A signal to "
      "srun\n"
      "# itself would kill them.)\n"
      "time_is_up=\n"
      "trap 'time_is_up=yes; scancel --signal=TERM \"{}\"' USR1\n",
      id_of(job));
}

// A command that starts the workers, and how it ended in $status.
std::string waited(const Job& job, Lines lines) {
  if (job.signal_seconds == 0) {
    return continued(lines) + kStatus;
  }
  lines.back() += " &";
  return trap_of(job) + continued(lines) + "step=$!\n" + wait_for("step");
}

// A command in place of the launcher's line. One that is put back must not keep bash from hearing
// of the time limit.
std::string render_own_command(const Job& job) {
  if (!job.is_requeued) {
    return job.exec_command + "\n" + kStatus;
  }
  return trap_of(job) + "{\n" + job.exec_command + "\n} &\nstep=$!\n" + wait_for("step");
}

constexpr const char* kTorchrunMeets =
    R"(--master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT")";

// Slurm warns the process of the batch script, and a bash that waits for a program hears nothing
// until that has ended. So lockstep takes bash's place; where something is to follow, bash waits in
// a way that a signal ends, and hands it on.
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
  // *.py is lockstep's to run, but in a container, where it cannot look.
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

// -x NAME for each variable of the network's: mpirun hands on only what it is told to.
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

// A task's place in the words of torch.distributed, which other frameworks read too. `task` has the
// shell's names of rank, local rank and node.
struct TaskWords {
  const char* rank;
  const char* local_rank;
  const char* node;
};

std::string place_of_task(const TaskWords& task, const Job& job) {
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
                              place_of_task({.rank = "OMPI_COMM_WORLD_RANK",
                                             .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                                             .node = node.c_str()},
                                            job)));
  lines.push_back(profile_of(job) + worker_of(job));
  return render_network(job) + kExports + continued(lines) + kStatus;
}

std::string render_srun(const Job& job) {
  Lines lines = srun_of(job, job.workers_per_node);
  append(lines, job.launcher_args);
  lines.push_back(fmt::format("bash -c '{}; exec \"$@\"' worker", place_of_task(kSlurmTask, job)));
  lines.push_back(profile_of(job) + worker_of(job));
  return render_network(job) + waited(job, lines);
}

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

constexpr const char* kWaitForAll = R"(# The first that fails ends them all.
left=${#steps[@]}
while ((left > 0)); do
  wait -n
  code=$?
  if ((code == 128 + $(kill -l USR1))); then
    continue # that was the trap
  fi
  ((left -= 1))
  if ((code != 0 && status == 0)); then
    status=$code
    [[ ${time_is_up:-} ]] || kill "${steps[@]}" 2>/dev/null
  fi
done
)";

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

std::string render_tensorflow(const Job& job) {
  Lines lines = srun_of(job, job.workers_per_node);
  append(lines, job.launcher_args);
  lines.push_back(fmt::format(
      "bash -c '{}; export TF_CONFIG=\"{{\\\"cluster\\\":{{\\\"worker\\\":[$TF_WORKERS]}},"
      "\\\"task\\\":{{\\\"type\\\":\\\"worker\\\",\\\"index\\\":$SLURM_PROCID}}}}\"; exec \"$@\"' "
      "worker",
      place_of_task(kSlurmTask, job)));
  lines.push_back(profile_of(job) + worker_of(job));
  std::string text = render_network(job);
  // Below the ports that the system gives out itself, and apart from another job's on the node.
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
  // A pipe would hide how the training ended.
  const bool has_pipe = look_at_command(job.program).has_pipe;
  return (has_pipe ? "set -o pipefail\n" : "") + render_by(job);
}

}  // namespace lockstep::slurm
