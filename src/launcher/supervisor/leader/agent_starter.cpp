// SPDX-License-Identifier: Apache-2.0
//
// One srun starts the agents of all nodes of an allocation; ssh starts one agent each. The
// rendezvous with its keys reaches an agent through the environment (srun) or standard input (ssh),
// never through a command line, which `ps` shows to every user.
//
// These processes carry no message of the control plane. Their exit matters only until the agents
// have joined; after that the control plane reports the loss of an agent.
#include "launcher/supervisor/leader/agent_starter.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "common/cluster/hosts.h"
#include "common/cluster/slurm_env.h"
#include "common/contract/worker_env.h"
#include "common/os/command.h"
#include "common/os/host.h"
#include "common/os/pipe.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

// Such a host needs no sshd: the agent is started directly, with the environment of this process.
bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == os::host_name();
}

// The number of GPUs that the step must request per node. Slurm gives a step the GPUs of its tasks.
// In a job that requested GPUs per task or as a total, a step with one task per node would get
// fewer GPUs than the job has on the node.
std::optional<int> find_gpus_to_ask(const os::Environment& environment) {
  const auto job = cluster::find_slurm_job(environment);
  if (!job || job->gpus_per_node.value_or(0) == 0 || environment.contains("SLURM_GPUS_PER_NODE")) {
    return std::nullopt;
  }
  if (const auto sum = os::find_variable(environment, "SLURM_GPUS")) {  // 4, or TYPE:4
    const auto count = find_integer(sum->substr(sum->rfind(':') + 1));
    const auto nodes = static_cast<int64_t>(job->nodes.size());
    return count == *job->gpus_per_node * nodes ? job->gpus_per_node : std::nullopt;
  }
  const std::vector<int>& tasks = job->tasks_per_node;
  const bool is_by_task =
      environment.contains("SLURM_GPUS_PER_TASK") || environment.contains("SLURM_TRES_PER_TASK");
  const bool is_even =
      std::adjacent_find(tasks.begin(), tasks.end(), std::not_equal_to<>()) == tasks.end();
  return is_by_task && is_even ? job->gpus_per_node : std::nullopt;
}

// A warning of srun about --cpu-bind=none on systems without CPU binding.
bool is_harmless(const std::string& line) {
  return line.find("lacks support for cpu binding") != std::string::npos;
}

}  // namespace

// The options override defaults of the site and of the batch script that would break the agents:
// --wait=0 (no limit after the first task has ended), --export=ALL (sbatch --export=NONE),
// --mpi=none (an agent is not an MPI process), --cpu-bind=none (the agent needs all cores of its
// node; it binds the workers itself), --input=none (srun would read the terminal), --unbuffered
// (messages of the agents appear at once), --quiet (no progress messages of srun).
std::vector<std::string> srun_command(const plan::LaunchPlan& plan, const std::string& lockstep) {
  std::vector<std::string> names;
  for (const plan::PlannedNode& node : plan.nodes) {
    names.push_back(node.name);
  }
  const std::string count = std::to_string(names.size());
  // --overlap: a second run in the job must not wait for the first. --no-kill and
  // --kill-on-bad-exit=0: the leader decides whether the run continues without a lost node.
  std::vector<std::string> command = {"srun",
                                      "--nodes=" + count,
                                      "--ntasks=" + count,
                                      "--ntasks-per-node=1",
                                      "--nodelist=" + join(names, ","),
                                      "--distribution=block",
                                      "--overlap",
                                      "--no-kill",
                                      "--kill-on-bad-exit=0",
                                      "--wait=0",
                                      "--mpi=none",
                                      "--export=ALL",
                                      "--cpu-bind=none",
                                      "--input=none",
                                      "--unbuffered",
                                      "--quiet",
                                      "--job-name=lockstep"};
  command.insert(command.end(), {lockstep, "agent"});
  return command;
}

// BatchMode: no password prompt, which would wait forever. ServerAliveInterval: ssh exits if the
// node does not answer three times in a row. `exec` replaces the login shell, so that the agent is
// the process whose standard input and output end with ssh.
std::vector<std::string> ssh_command(const plan::LaunchPlan& plan,
                                     const std::string& host,
                                     const std::string& lockstep) {
  if (is_this_machine(host)) {
    return {lockstep, "agent", "--stdin"};
  }
  std::vector<std::string> command = {"ssh",
                                      "-T",
                                      "-o",
                                      "BatchMode=yes",
                                      "-o",
                                      "ConnectTimeout=10",
                                      "-o",
                                      "ServerAliveInterval=15"};
  if (plan.ssh_port.value != 0) {
    command.insert(command.end(), {"-p", std::to_string(plan.ssh_port.value)});
  }
  if (!plan.ssh_identity.value.empty()) {
    command.insert(command.end(), {"-i", plan.ssh_identity.value});
  }
  command.insert(command.end(),
                 {host, fmt::format("exec {} agent --stdin", quote_for_shell(lockstep))});
  return command;
}

// srun reads most of its options from variables too, and sbatch sets many of them to its own
// options. They describe the tasks of the batch script, not the one agent per node that is started
// here. GPUs of the job are requested again per node, see find_gpus_to_ask().
os::Environment srun_environment(os::Environment environment) {
  constexpr std::array kRequests = {"SLURM_NTASKS",
                                    "SLURM_NPROCS",
                                    "SLURM_NTASKS_PER_NODE",
                                    "SLURM_TASKS_PER_NODE",
                                    "SLURM_CPUS_PER_TASK",
                                    "SLURM_TRES_PER_TASK",
                                    "SLURM_GPUS_PER_TASK",
                                    "SLURM_GPU_BIND",
                                    "SLURM_TRES_BIND",
                                    "SLURM_CPU_BIND",
                                    "SLURM_CPU_BIND_LIST",
                                    "SLURM_CPU_BIND_TYPE",
                                    "SLURM_CPU_BIND_VERBOSE",
                                    "SLURM_MEM_BIND",
                                    "SLURM_DISTRIBUTION",
                                    "SLURM_EXPORT_ENV",
                                    "SLURM_EXACT",
                                    "SLURM_MPI_TYPE",
                                    "SLURM_LABELIO"};
  const std::optional<int> gpus = find_gpus_to_ask(environment);
  for (const char* name : kRequests) {
    environment.erase(name);
  }
  if (gpus) {
    environment.erase("SLURM_GPUS");
    environment.insert_or_assign("SLURM_GPUS_PER_NODE", std::to_string(*gpus));
  }
  return environment;
}

// The agent must behave as if the user had typed the command there: PATH, LD_LIBRARY_PATH, the
// variables of modules and virtual environments travel. Values of the login session (HOME, agent
// sockets, D-Bus, displays) belong to one machine. SLURM_* is left out because the hosts of -H are
// not the nodes of a job.
os::Environment ssh_environment(const os::Environment& environment) {
  constexpr std::array kOwn = {"HOME",
                               "USER",
                               "LOGNAME",
                               "SHELL",
                               "PWD",
                               "OLDPWD",
                               "HOSTNAME",
                               "TMPDIR",
                               "TERM",
                               "SHLVL",
                               "_",
                               "DISPLAY",
                               "MAIL",
                               "LS_COLORS"};
  constexpr std::array kPrefixes = {
      "SSH_", "XDG_", "SLURM_", "DBUS_", "LOCKSTEP_MEETING", "LOCKSTEP_SECRET"};
  os::Environment sent;
  for (const auto& entry : environment) {
    const std::string& name = entry.first;
    const bool is_own = std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
    const bool is_of_login = std::any_of(
        kPrefixes.begin(), kPrefixes.end(), [&](const char* one) { return name.starts_with(one); });
    if (!is_own && !is_of_login) {
      sent.insert(entry);
    }
  }
  return sent;
}

AgentStarter::AgentStarter(os::Reactor& reactor, std::function<void(const std::string&)> say)
    : reactor_(reactor), say_(std::move(say)) {}

AgentStarter::~AgentStarter() {
  kill();
  for (const Process& process : processes_) {
    reactor_.forget(process.child.fd());
    reactor_.forget(process.output.number());
  }
}

void AgentStarter::start(const plan::LaunchPlan& plan,
                         const RendezvousPoint& point,
                         const os::Environment& environment) {
  const std::string lockstep = os::own_executable();
  if (plan.mode.value == plan::LaunchMode::Srun) {
    os::Environment own = srun_environment(environment);
    own.insert_or_assign(std::string(contract::kRendezvous), encode(point));
    add("srun", srun_command(plan, lockstep), own, "");
    return;
  }
  for (size_t node = 0; node < plan.nodes.size(); ++node) {
    const std::string& host = plan.nodes[node].name;
    RendezvousPoint own = point;
    own.node = static_cast<int>(node);
    own.environment = is_this_machine(host) ? os::Environment() : ssh_environment(environment);
    add("ssh " + host, ssh_command(plan, host, lockstep), environment, encode(own) + "\n");
  }
}

// The input is a file in memory, not a pipe: it needs no writer, so that a large environment cannot
// block this process and an ssh that exits early causes no write error. The own process group keeps
// a Ctrl-C of the terminal away from ssh; `lockstep` decides what it means. dies_with_parent covers
// a leader that is killed.
void AgentStarter::add(const std::string& what,
                       const std::vector<std::string>& command,
                       const os::Environment& environment,
                       const std::string& input) {
  const auto program = os::find_program(command.front(), environment);
  if (!program) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot start agents: {} not found", command.front()))
        .fact("searched", os::find_variable(environment, "PATH").value_or(""), "PATH")
        .hint(command.front() == "srun" ? "load the module or install the package of Slurm"
                                        : "install the package openssh-client");
  }
  os::Pipe output = os::make_pipe();
  os::set_nonblocking(output.out.number());
  const os::Fd standard_input = os::make_memory_file(input);
  processes_.push_back({.what = what,
                        .child = os::start({.executable = program->string(),
                                            .arguments = command,
                                            .environment = environment,
                                            .stdin_fd = standard_input.number(),
                                            .stdout_fd = output.in.number(),
                                            .stderr_fd = output.in.number(),
                                            .inherited = {},
                                            .directory = "",
                                            .has_own_group = true,
                                            .dies_with_parent = true,
                                            .cpus = {}}),
                        .output = std::move(output.out),
                        .text = "",
                        .last_line = ""});
  Process& added = processes_.back();
  reactor_.watch(added.child.fd(), os::Reactor::For::Read, [] {});
  reactor_.watch(added.output.number(), os::Reactor::For::Read, [this, &added] { read(added); });
}

// The last line is kept for the error message if the agents cannot be started ("Permission denied
// (publickey)"). `process` lives in a std::list, so the reference in the handler stays valid.
void AgentStarter::read(Process& process) {
  constexpr size_t kMaximum = 1 << 16;
  const os::ReadResult result = os::read_some(process.output.number(), process.text, kMaximum);
  for (size_t end = process.text.find('\n'); end != std::string::npos;
       end = process.text.find('\n')) {
    const std::string line = process.text.substr(0, end);
    process.text.erase(0, end + 1);
    if (!is_harmless(line)) {
      process.last_line = line;
      say_(fmt::format("{}: {}", process.what, line));
    }
  }
  if (result == os::ReadResult::End) {
    reactor_.forget(process.output.number());
    process.output.close();
  }
}

// The output is read once more after the exit: the last line is usually the reason, and it may have
// arrived after the last turn of the reactor.
std::vector<AgentStarter::Ended> AgentStarter::take_ended() {
  std::vector<Ended> ended;
  for (auto process = processes_.begin(); process != processes_.end();) {
    const auto status = process->child.find_exit();
    if (!status) {
      ++process;
      continue;
    }
    if (process->output.is_open()) {
      read(*process);
      reactor_.forget(process->output.number());
    }
    reactor_.forget(process->child.fd());
    ended.push_back({process->what, *status, process->last_line});
    process = processes_.erase(process);
  }
  return ended;
}

void AgentStarter::kill() {
  for (const Process& process : processes_) {
    process.child.signal_group(SIGKILL);
  }
}

}  // namespace lockstep::supervisor
