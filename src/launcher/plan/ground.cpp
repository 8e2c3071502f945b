// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/ground.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "launcher/plan/by_hand.h"
#include "launcher/plan/names.h"
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

std::string describe_hosts(const Ground& ground) {
  std::vector<std::string> names;
  for (const cluster::Host& host : ground.hosts) {
    if (!host.name.empty()) {
      names.push_back(host.name);
    }
  }
  return fmt::format("{}{}{}",
                     plural(static_cast<int64_t>(ground.hosts.size()), "node"),
                     names.empty() ? "" : ": ",
                     fold_names(names));
}

[[noreturn]] void refuse_too_many(const NodeRange& asked, const Ground& ground) {
  const size_t count = ground.hosts.size();
  throw Error(ExitCode::Usage,
              fmt::format("cannot run on {} nodes: only {} {} available",
                          asked.least,
                          count == 1 ? "one" : std::to_string(count),
                          count == 1 ? "is" : "are"))
      .fact("asked", asked.quote.text, asked.quote.who)
      .fact("found", describe_hosts(ground), ground.told_by)
      .hint(fmt::format("--nnodes {}, or drop it to use every node", count))
      .hint(ground.way.value == Way::Srun ? fmt::format("salloc -N {}", asked.least)
                                          : "list more hosts");
}

// Keeps the first nodes, as many as were requested.
void cut(Ground& ground, const Sizes& sizes) {
  ground.min_nodes = static_cast<int>(ground.hosts.size());
  if (!sizes.nodes) {
    return;
  }
  if (static_cast<size_t>(sizes.nodes->least) > ground.hosts.size()) {
    refuse_too_many(*sizes.nodes, ground);
  }
  if (static_cast<size_t>(sizes.nodes->most) < ground.hosts.size()) {
    ground.hosts.resize(static_cast<size_t>(sizes.nodes->most));
  }
  ground.min_nodes = sizes.nodes->least;
}

// Each node already runs a launcher, so nodes can be neither dropped nor added.
void require_all(Ground& ground, const Sizes& sizes, std::string_view instead) {
  ground.min_nodes = static_cast<int>(ground.hosts.size());
  if (!sizes.nodes) {
    return;
  }
  const auto count = static_cast<int>(ground.hosts.size());
  if (sizes.nodes->least > count || sizes.nodes->most < count) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot run on {}: this was started on {}",
                            plural(std::min(sizes.nodes->most, std::max(sizes.nodes->least, count)),
                                   "node"),
                            plural(count, "node")))
        .fact("asked", sizes.nodes->quote.text, sizes.nodes->quote.who)
        .fact("found", describe_hosts(ground), ground.told_by)
        .hint(fmt::format("drop --nnodes, or {} {}", instead, sizes.nodes->most));
  }
  ground.min_nodes = sizes.nodes->least;
}

Ground on_this_machine(const Surroundings& here, Source source) {
  return {.way = {Way::Here, std::move(source)},
          .hosts = to_hosts({here.node}),
          .told_by = "this machine",
          .min_nodes = 1,
          .meeting = {},
          .is_by_hand = false};
}

bool names_hosts(const Request& request) {
  return request.hosts || request.hostfile || request.include || request.exclude;
}

std::optional<std::string> text_of(const Wish& wish) {
  return wish ? std::optional(wish->text) : std::nullopt;
}

// The hosts of -H or of a host file; without either, those of the Slurm job or this machine.
Ground offered_hosts(const Request& request, const Surroundings& here) {
  Ground ground;
  ground.way = {Way::Ssh, {}};
  if (request.hosts) {
    ground.hosts = cluster::parse_hosts(request.hosts->text);
    ground.told_by = spelt(*request.hosts, "-H");
    ground.way.source = source_of(*request.hosts, "-H");
  } else if (request.hostfile) {
    ground.hosts =
        cluster::parse_hostfile(request.hostfile_text.value_or(""), request.hostfile->text);
    ground.told_by = request.hostfile->text;
    ground.way.source = source_of(*request.hostfile, "--hostfile");
  } else if (here.job && !here.is_nested) {
    ground.hosts = to_hosts(here.job->nodes);
    for (cluster::Host& host : ground.hosts) {
      host.slots = here.job->gpus_per_node;
    }
    ground.told_by = "Slurm job " + here.job->id;
    ground.way = from_probe(Way::Srun, ground.told_by);
  } else {
    ground.hosts = to_hosts({"localhost"});
    ground.hosts.front().slots = here.gpus > 0 ? std::optional(here.gpus) : std::nullopt;
    ground.told_by = "this machine";
    const Wish& choice = request.include ? request.include : request.exclude;
    ground.way.source = source_of(*choice, request.include ? "--include" : "--exclude");
  }
  return ground;
}

Ground on_hosts(const Request& request, const Surroundings& here, const Sizes& sizes) {
  Ground ground = offered_hosts(request, here);
  ground.hosts = cluster::select_hosts(
      std::move(ground.hosts), text_of(request.include), text_of(request.exclude));
  if (ground.hosts.empty()) {
    throw Error(ExitCode::Usage, "cannot run: no host is left")
        .fact("found", "no host", ground.told_by)
        .hint("-H host1:4,host2:4");
  }
  cut(ground, sizes);
  settle(ground, here);
  return ground;
}

Ground in_job(const Surroundings& here, const Sizes& sizes) {
  const cluster::SlurmJob& job = *here.job;
  Ground ground{.way = from_probe(Way::Srun, "Slurm job " + job.id),
                .hosts = to_hosts(job.nodes),
                .told_by = "Slurm job " + job.id,
                .min_nodes = 1,
                .meeting = {},
                .is_by_hand = false};
  cut(ground, sizes);
  if (ground.hosts.size() == 1 && is_this_machine(ground.hosts.front().name, here)) {
    ground.way.value = Way::Here;
  }
  return ground;
}

Ground in_step(const Surroundings& here, const Sizes& sizes) {
  const cluster::SlurmStep& step = *here.step;
  const std::string name = fmt::format("{}.{}", step.job_id, step.id);
  Ground ground{.way = from_probe(Way::Peers, "Slurm step " + name),
                .hosts = to_hosts(step.nodes),
                .told_by = "Slurm step " + name,
                .min_nodes = 1,
                .meeting = {},
                .is_by_hand = false};
  ground.meeting.name = "slurm-" + name;
  ground.meeting.node = step.node;
  const auto most = std::max_element(step.tasks_per_node.begin(), step.tasks_per_node.end());
  if (most != step.tasks_per_node.end() && *most > 1) {
    ground.way.value = Way::Task;
    for (size_t i = 0; i < ground.hosts.size() && i < step.tasks_per_node.size(); ++i) {
      ground.hosts[i].slots = step.tasks_per_node[i];
    }
    ground.meeting.rank = step.task;
    ground.meeting.world_size = step.tasks;
    ground.meeting.local_rank = step.local_task;
    ground.meeting.local_world_size = step.tasks_per_node.at(static_cast<size_t>(step.node));
  }
  require_all(ground, sizes, "srun -N");
  return ground;
}

// Computes the nodes from rank and sizes, because the launcher does not provide node names.
Ground in_task(const Surroundings& here, const Sizes& sizes) {
  const cluster::TaskPlace& task = *here.task;
  const int nodes = (task.size + task.local_size - 1) / task.local_size;
  const int node = task.node.value_or(task.rank / task.local_size);
  Ground ground{.way = from_probe(Way::Peers, task.launcher),
                .hosts = to_hosts(std::vector<std::string>(static_cast<size_t>(nodes))),
                .told_by = task.launcher,
                .min_nodes = nodes,
                .meeting = {},
                .is_by_hand = false};
  ground.meeting.name = to_file_name(task.launcher + "-" + task.run);
  ground.meeting.node = node;
  if (node < nodes) {
    ground.hosts[static_cast<size_t>(node)].name = here.node;
  }
  if (task.local_size > 1) {
    ground.way.value = Way::Task;
    int left = task.size;
    for (cluster::Host& host : ground.hosts) {
      host.slots = std::min(left, task.local_size);
      left -= *host.slots;
    }
    ground.meeting.rank = task.rank;
    ground.meeting.world_size = task.size;
    ground.meeting.local_rank = task.local_rank;
    ground.meeting.local_world_size = task.local_size;
  }
  require_all(ground, sizes, "one task per node: mpirun -np");
  return ground;
}

[[noreturn]] void refuse_alone(const Request& request, const NodeRange& asked) {
  throw Error(ExitCode::Usage,
              fmt::format("cannot run on {} nodes: this is one machine", asked.least))
      .fact("asked", asked.quote.text, asked.quote.who)
      .fact("found", "no other host, no Slurm job, no other launcher", "command line and variables")
      .hint(fmt::format("over ssh: {} -H host1:4,host2:4 PROGRAM", command_of(request.dialect)))
      .hint(fmt::format("manually, on each node: {} --nnodes {} --node-rank N --master-addr HOST "
                        "PROGRAM",
                        command_of(request.dialect),
                        asked.least))
      .hint(fmt::format("salloc -N {} lockstep run PROGRAM", asked.least));
}

Ground in_surroundings(const Request& request, const Surroundings& here, const Sizes& sizes) {
  const bool wants_more = sizes.nodes && sizes.nodes->least > 1;
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
    return on_this_machine(here, {Origin::Probe, "inside a worker of another run"});
  }
  if (here.step) {
    return on_this_machine(
        here,
        {Origin::Probe,
         fmt::format("the only task of Slurm step {}.{}", here.step->job_id, here.step->id)});
  }
  return on_this_machine(here, {});
}

}  // namespace

void settle(Ground& ground, const Surroundings& here) {
  if (ground.way.value == Way::Ssh && ground.hosts.size() == 1 &&
      is_this_machine(ground.hosts.front().name, here)) {
    ground.way.value = Way::Here;
    ground.hosts.front().name = here.node;
  }
}

bool is_this_machine(const std::string& name, const Surroundings& here) {
  return name == "localhost" || name == "127.0.0.1" || name == "::1" || name == here.node ||
         (short_name(name) == short_name(here.node) &&
          (name.find('.') == std::string::npos || here.node.find('.') == std::string::npos) &&
          name.find_first_not_of("0123456789.") != std::string::npos);
}

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

Ground find_ground(const Request& request,
                   const Surroundings& here,
                   const Sizes& sizes,
                   const MeetingRules& rules) {
  if (names_hosts(request)) {
    return on_hosts(request, here, sizes);
  }
  if (request.is_standalone) {
    return on_this_machine(here, {Origin::Flag, "--standalone"});
  }
  if (is_by_hand(request, here, sizes)) {
    return meet_by_hand(request, here, sizes, rules);
  }
  return in_surroundings(request, here, sizes);
}

}  // namespace lockstep::plan
