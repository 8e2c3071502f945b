// SPDX-License-Identifier: Apache-2.0
//
// How the launch mode follows from options and environment; the first row that applies wins:
//
//   -H, --hostfile                         Ssh; Local if this machine is the only host
//   --include, --exclude                   Srun in a Slurm job, else Local
//   --standalone                           Local
//   --rdzv-endpoint, --node-rank ...       Peers (manual_rendezvous.cpp)
//   inside a worker of another run         Local
//   tasks of torchrun, mpirun, PMI         Peers with one task per node, Task with more
//   tasks of a Slurm step                  Peers with one task per node, Task with more
//   a Slurm job                            Srun; Local if this machine is its only node
//   otherwise                              Local
//
// A Slurm step with a single task is not a task in this sense: it runs Local, or Srun if --nnodes
// asks for more nodes of the job.
#include "launcher/plan/launch_target.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "launcher/plan/hostlist_format.h"
#include "launcher/plan/manual_rendezvous.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

std::string short_name(const std::string& name) {
  return name.substr(0, name.find('.'));
}

std::vector<cluster::Host> to_hosts(const std::vector<std::string>& names) {
  std::vector<cluster::Host> hosts;
  hosts.reserve(names.size());
  for (const std::string& name : names) {
    hosts.push_back({.name = name, .slots = std::nullopt, .gpus = {}});
  }
  return hosts;
}

std::string describe_hosts(const LaunchTarget& target) {
  std::vector<std::string> names;
  for (const cluster::Host& host : target.hosts) {
    if (!host.name.empty()) {
      names.push_back(host.name);
    }
  }
  return fmt::format("{}{}{}",
                     plural(static_cast<int64_t>(target.hosts.size()), "node"),
                     names.empty() ? "" : ": ",
                     to_hostlist(names));
}

[[noreturn]] void refuse_too_many(const NodeRange& requested, const LaunchTarget& target) {
  const size_t count = target.hosts.size();
  throw Error(ExitCode::Usage,
              fmt::format("cannot run on {} nodes: only {} {} available",
                          requested.minimum,
                          count == 1 ? "one" : std::to_string(count),
                          count == 1 ? "is" : "are"))
      .fact("requested", requested.provenance.text, requested.provenance.source)
      .fact("found", describe_hosts(target), target.named_by)
      .hint(fmt::format("--nnodes {}, or drop it to use every node", count))
      .hint(target.mode.value == LaunchMode::Srun ? fmt::format("salloc -N {}", requested.minimum)
                                                  : "list more hosts");
}

// Keeps the first nodes, as many as were requested.
void cut(LaunchTarget& target, const Sizes& sizes) {
  target.min_nodes = static_cast<int>(target.hosts.size());
  if (!sizes.nodes) {
    return;
  }
  if (static_cast<size_t>(sizes.nodes->minimum) > target.hosts.size()) {
    refuse_too_many(*sizes.nodes, target);
  }
  if (static_cast<size_t>(sizes.nodes->maximum) < target.hosts.size()) {
    target.hosts.resize(static_cast<size_t>(sizes.nodes->maximum));
  }
  target.min_nodes = sizes.nodes->minimum;
}

// Each node already runs a launcher, so nodes can be neither dropped nor added.
void require_all(LaunchTarget& target, const Sizes& sizes, std::string_view instead) {
  target.min_nodes = static_cast<int>(target.hosts.size());
  if (!sizes.nodes) {
    return;
  }
  const auto count = static_cast<int>(target.hosts.size());
  if (sizes.nodes->minimum > count || sizes.nodes->maximum < count) {
    throw Error(
        ExitCode::Usage,
        fmt::format(
            "cannot run on {}: this was started on {}",
            plural(std::min(sizes.nodes->maximum, std::max(sizes.nodes->minimum, count)), "node"),
            plural(count, "node")))
        .fact("requested", sizes.nodes->provenance.text, sizes.nodes->provenance.source)
        .fact("found", describe_hosts(target), target.named_by)
        .hint(fmt::format("drop --nnodes, or {} {}", instead, sizes.nodes->maximum));
  }
  target.min_nodes = sizes.nodes->minimum;
}

LaunchTarget on_this_machine(const HostEnvironment& here, Source source) {
  return {.mode = {LaunchMode::Local, std::move(source)},
          .hosts = to_hosts({here.node}),
          .named_by = "this machine",
          .min_nodes = 1,
          .rendezvous = {},
          .is_manual = false};
}

bool names_hosts(const Request& request) {
  return request.hosts || request.hostfile || request.include || request.exclude;
}

std::optional<std::string> text_of(const Option& option) {
  return option ? std::optional(option->text) : std::nullopt;
}

// The hosts of -H or of a host file; without either, those of the Slurm job or this machine.
LaunchTarget offered_hosts(const Request& request, const HostEnvironment& here) {
  LaunchTarget target;
  target.mode = {LaunchMode::Ssh, {}};
  if (request.hosts) {
    target.hosts = cluster::parse_hosts(request.hosts->text);
    target.named_by = spelt(*request.hosts, "-H");
    target.mode.source = source_of(*request.hosts, "-H");
  } else if (request.hostfile) {
    target.hosts =
        cluster::parse_hostfile(request.hostfile_text.value_or(""), request.hostfile->text);
    target.named_by = request.hostfile->text;
    target.mode.source = source_of(*request.hostfile, "--hostfile");
  } else if (here.job && !here.is_nested) {
    target.hosts = to_hosts(here.job->nodes);
    for (cluster::Host& host : target.hosts) {
      host.slots = here.job->gpus_per_node;
    }
    target.named_by = "Slurm job " + here.job->id;
    target.mode = from_probe(LaunchMode::Srun, target.named_by);
  } else {
    target.hosts = to_hosts({"localhost"});
    target.hosts.front().slots = here.gpus > 0 ? std::optional(here.gpus) : std::nullopt;
    target.named_by = "this machine";
    const Option& choice = request.include ? request.include : request.exclude;
    target.mode.source = source_of(*choice, request.include ? "--include" : "--exclude");
  }
  return target;
}

LaunchTarget on_hosts(const Request& request, const HostEnvironment& here, const Sizes& sizes) {
  LaunchTarget target = offered_hosts(request, here);
  target.hosts = cluster::select_hosts(
      std::move(target.hosts), text_of(request.include), text_of(request.exclude));
  if (target.hosts.empty()) {
    throw Error(ExitCode::Usage, "cannot run: no host is left")
        .fact("found", "no host", target.named_by)
        .hint("-H host1:4,host2:4");
  }
  cut(target, sizes);
  settle(target, here);
  return target;
}

// srun is not needed on a single node, if it is this one. A job whose only node is another machine
// (salloc on a login node) still needs it.
LaunchTarget in_job(const HostEnvironment& here, const Sizes& sizes) {
  const cluster::SlurmJob& job = *here.job;
  LaunchTarget target{.mode = from_probe(LaunchMode::Srun, "Slurm job " + job.id),
                      .hosts = to_hosts(job.nodes),
                      .named_by = "Slurm job " + job.id,
                      .min_nodes = 1,
                      .rendezvous = {},
                      .is_manual = false};
  cut(target, sizes);
  if (target.hosts.size() == 1 && is_this_machine(target.hosts.front().name, here)) {
    target.mode.value = LaunchMode::Local;
  }
  return target;
}

// One task per node: each task is the agent of its node and starts the workers. Several tasks on a
// node: Slurm has already started one process per worker.
LaunchTarget in_step(const HostEnvironment& here, const Sizes& sizes) {
  const cluster::SlurmStep& step = *here.step;
  const std::string name = fmt::format("{}.{}", step.job_id, step.id);
  LaunchTarget target{.mode = from_probe(LaunchMode::Peers, "Slurm step " + name),
                      .hosts = to_hosts(step.nodes),
                      .named_by = "Slurm step " + name,
                      .min_nodes = 1,
                      .rendezvous = {},
                      .is_manual = false};
  target.rendezvous.name = "slurm-" + name;
  target.rendezvous.node = step.node;
  const auto maximum = std::max_element(step.tasks_per_node.begin(), step.tasks_per_node.end());
  if (maximum != step.tasks_per_node.end() && *maximum > 1) {
    target.mode.value = LaunchMode::Task;
    for (size_t i = 0; i < target.hosts.size() && i < step.tasks_per_node.size(); ++i) {
      target.hosts[i].slots = step.tasks_per_node[i];
    }
    target.rendezvous.rank = step.task;
    target.rendezvous.world_size = step.tasks;
    target.rendezvous.local_rank = step.local_task;
    target.rendezvous.local_world_size = step.tasks_per_node.at(static_cast<size_t>(step.node));
  }
  require_all(target, sizes, "srun -N");
  return target;
}

// Computes the nodes from rank and sizes, because the launcher does not provide node names.
LaunchTarget in_task(const HostEnvironment& here, const Sizes& sizes) {
  const cluster::LauncherTask& task = *here.task;
  const int nodes = (task.size + task.local_size - 1) / task.local_size;
  const int node = task.node.value_or(task.rank / task.local_size);
  LaunchTarget target{.mode = from_probe(LaunchMode::Peers, task.launcher),
                      .hosts = to_hosts(std::vector<std::string>(static_cast<size_t>(nodes))),
                      .named_by = task.launcher,
                      .min_nodes = nodes,
                      .rendezvous = {},
                      .is_manual = false};
  target.rendezvous.name = to_file_name(task.launcher + "-" + task.run);
  target.rendezvous.node = node;
  if (node < nodes) {
    target.hosts[static_cast<size_t>(node)].name = here.node;
  }
  if (task.local_size > 1) {
    target.mode.value = LaunchMode::Task;
    int left = task.size;
    for (cluster::Host& host : target.hosts) {
      host.slots = std::min(left, task.local_size);
      left -= *host.slots;
    }
    target.rendezvous.rank = task.rank;
    target.rendezvous.world_size = task.size;
    target.rendezvous.local_rank = task.local_rank;
    target.rendezvous.local_world_size = task.local_size;
  }
  require_all(target, sizes, "one task per node: mpirun -np");
  return target;
}

[[noreturn]] void refuse_alone(const Request& request, const NodeRange& requested) {
  throw Error(ExitCode::Usage,
              fmt::format("cannot run on {} nodes: this is one machine", requested.minimum))
      .fact("requested", requested.provenance.text, requested.provenance.source)
      .fact("found", "no other host, no Slurm job, no other launcher", "command line and variables")
      .hint(fmt::format("over ssh: {} -H host1:4,host2:4 PROGRAM", command_of(request.dialect)))
      .hint(fmt::format("manually, on each node: {} --nnodes {} --node-rank N --master-addr HOST "
                        "PROGRAM",
                        command_of(request.dialect),
                        requested.minimum))
      .hint(fmt::format("salloc -N {} lockstep run PROGRAM", requested.minimum));
}

// The variables of an outer launcher come before those of a Slurm step: mpirun can start its
// daemons with srun, so its tasks have both, and only its own ranks number the processes.
LaunchTarget from_environment(const Request& request,
                              const HostEnvironment& here,
                              const Sizes& sizes) {
  const bool wants_more = sizes.nodes && sizes.nodes->minimum > 1;
  if (!here.is_nested) {
    if (here.task && here.task->size > 1) {
      return in_task(here, sizes);
    }
    if (here.step && here.step->tasks > 1) {
      return in_step(here, sizes);
    }
    // A step with one task runs on one node on purpose, unless --nnodes requests more nodes of the
    // job.
    if (here.job && (!here.step || wants_more)) {
      return in_job(here, sizes);
    }
  }
  if (wants_more) {
    refuse_alone(request, *sizes.nodes);
  }
  if (here.is_nested) {
    return on_this_machine(here, {ValueSource::Probe, "inside a worker of another run"});
  }
  if (here.step) {
    return on_this_machine(
        here,
        {ValueSource::Probe,
         fmt::format("the only task of Slurm step {}.{}", here.step->job_id, here.step->id)});
  }
  return on_this_machine(here, {});
}

}  // namespace

void settle(LaunchTarget& target, const HostEnvironment& here) {
  if (target.mode.value == LaunchMode::Ssh && target.hosts.size() == 1 &&
      is_this_machine(target.hosts.front().name, here)) {
    target.mode.value = LaunchMode::Local;
    target.hosts.front().name = here.node;
  }
}

// "n1" and "n1.cluster.org" are the same host, but "n1.a.org" and "n1.b.org" are not. An IPv4
// address has no short name: "10.0.0.1" must not match a host "10".
bool is_this_machine(const std::string& name, const HostEnvironment& here) {
  return name == "localhost" || name == "127.0.0.1" || name == "::1" || name == here.node ||
         (short_name(name) == short_name(here.node) &&
          (name.find('.') == std::string::npos || here.node.find('.') == std::string::npos) &&
          name.find_first_not_of("0123456789.") != std::string::npos);
}

// A list of unsafe characters and not of safe ones: names can be in any language.
std::string to_file_name(std::string_view text) {
  std::string name(text);
  std::replace_if(
      name.begin(),
      name.end(),
      [](char c) {
        return std::string_view("/ \t\n\"'\\:*?<>|&;$`@").find(c) != std::string::npos;
      },
      '-');
  return name.empty() ? "run" : name;
}

LaunchTarget choose_launch_target(const Request& request,
                                  const HostEnvironment& here,
                                  const Sizes& sizes,
                                  const RendezvousOptions& rules) {
  if (names_hosts(request)) {
    return on_hosts(request, here, sizes);
  }
  if (request.is_standalone) {
    return on_this_machine(here, {ValueSource::Flag, "--standalone"});
  }
  if (is_manual(request, here, sizes)) {
    return manual_target(request, here, sizes, rules);
  }
  return from_environment(request, here, sizes);
}

}  // namespace lockstep::plan
