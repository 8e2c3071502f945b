// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/allocation.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace lockstep::plan {
namespace {

// Selects the counts of the nodes in `target` by node name. Returns an empty vector if one of them
// is not part of the job.
std::vector<int> pick(const std::vector<int>& counts,
                      const cluster::SlurmJob& job,
                      const HostEnvironment& here,
                      const LaunchTarget& target) {
  std::vector<int> picked;
  if (counts.size() != job.nodes.size()) {
    return picked;
  }
  for (const cluster::Host& host : target.hosts) {
    const auto found = std::find_if(job.nodes.begin(), job.nodes.end(), [&](const auto& name) {
      return name == host.name || (host.name == here.node && is_this_machine(name, here));
    });
    if (found == job.nodes.end()) {
      return {};
    }
    picked.push_back(counts[static_cast<size_t>(found - job.nodes.begin())]);
  }
  return picked;
}

}  // namespace

// Tasks count only if there are more of them than nodes: one task per node is the default of Slurm
// and does not mean one worker per node. Counts per node that do not add up to --ntasks are
// ignored.
Allocation read_allocation(const HostEnvironment& here, const LaunchTarget& target) {
  Allocation allocation;
  // With named hosts or a manual rendezvous, the allocation does not determine the workers.
  if (here.is_nested || !here.job || target.mode.source.kind != ValueSource::Probe) {
    return allocation;
  }
  const cluster::SlurmJob& job = *here.job;
  allocation.source = "Slurm job " + job.id;
  allocation.gpus = job.gpus_per_node;
  allocation.cpus = pick(job.cpus_per_node, job, here, target);
  if (job.asked_tasks_per_node) {
    if (*job.asked_tasks_per_node > 1) {
      allocation.tasks.assign(target.hosts.size(), *job.asked_tasks_per_node);
      allocation.tasks_said = fmt::format("--ntasks-per-node={}", *job.asked_tasks_per_node);
    }
    return allocation;
  }
  const bool is_whole = std::accumulate(job.tasks_per_node.begin(), job.tasks_per_node.end(), 0) ==
                        job.asked_tasks.value_or(0);
  if (is_whole && *job.asked_tasks > static_cast<int>(job.nodes.size())) {
    allocation.tasks = pick(job.tasks_per_node, job, here, target);
    allocation.tasks_said = fmt::format("--ntasks={}", *job.asked_tasks);
  }
  return allocation;
}

}  // namespace lockstep::plan
