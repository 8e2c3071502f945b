// SPDX-License-Identifier: Apache-2.0
//
// Ranks are assigned node by node; cross ranks count the nodes that have a worker with the same
// local rank. For slots with 3 and 2 workers:
//
//   slot          0  0  0  1  1
//   rank          0  1  2  3  4
//   local rank    0  1  2  0  1
//   cross rank    0  0  0  1  1
//   cross size    2  2  1  2  2
//
// Everything that depends on other nodes is derived here, by the leader. An agent needs only its
// own spec.
#include "launcher/plan/node_spec.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "common/cluster/launcher_task.h"

namespace lockstep::plan {
namespace {

// TF_CONFIG contains the address of every worker. Linux limits one variable to 128 KiB, so larger
// runs get no TF_CONFIG.
constexpr int kMaxTensorflowWorkers = 2048;

std::vector<std::string> tensorflow_cluster(const AttemptLayout& layout) {
  std::vector<std::string> workers;
  for (const NodeSlot& slot : layout.slots) {
    const bool is_v6 = slot.address.find(':') != std::string::npos;
    for (int local = 0; local < slot.workers; ++local) {
      const auto port = static_cast<size_t>(local) < slot.ports.size()
                            ? slot.ports[static_cast<size_t>(local)]
                            : 0;
      workers.push_back(is_v6 ? fmt::format("[{}]:{}", slot.address, port)
                              : fmt::format("{}:{}", slot.address, port));
    }
  }
  return workers;
}

os::Environment variables_for(const LaunchPlan& plan, const NodeSlot& slot) {
  os::Environment variables;
  for (const auto& [name, value] : plan.variables) {
    variables.insert_or_assign(name, value.value);
  }
  for (const auto& [name, value] : plan.nodes.at(static_cast<size_t>(slot.node)).variables) {
    variables.insert_or_assign(name, value.value);
  }
  return variables;
}

}  // namespace

int world_size(const AttemptLayout& layout) {
  return std::accumulate(
      layout.slots.begin(), layout.slots.end(), 0, [](int sum, const NodeSlot& slot) {
        return sum + slot.workers;
      });
}

int count_by_rule(WorkerRule rule, int cores, int gpus) {
  switch (rule) {
    case WorkerRule::Number:
      return 1;
    case WorkerRule::Cpu:
      return cores;
    case WorkerRule::Gpu:
      return gpus;
    case WorkerRule::Auto:
      return gpus > 0 ? gpus : cores;
  }
  return 1;
}

// slots_with_local_ is built once for all specs: without it, the specs of n nodes would cost n * n
// steps.
NodeSpecMaker::NodeSpecMaker(const LaunchPlan& plan, const AttemptLayout& layout)
    : plan_(plan), layout_(layout), world_size_(world_size(layout)) {
  int rank = 0;
  for (size_t slot = 0; slot < layout.slots.size(); ++slot) {
    const int workers = layout.slots[slot].workers;
    first_ranks_.push_back(rank);
    rank += workers;
    slots_with_local_.resize(std::max(slots_with_local_.size(), static_cast<size_t>(workers)));
    for (int local = 0; local < workers; ++local) {
      slots_with_local_[static_cast<size_t>(local)].push_back(static_cast<int>(slot));
    }
  }
  if (world_size_ <= kMaxTensorflowWorkers) {
    tensorflow_cluster_ = tensorflow_cluster(layout);
  }
}

// The last port of slot 0 is that of the Horovod rendezvous (Leader::prepare()). horovod_port 0
// means that the agent serves none.
NodeSpec NodeSpecMaker::spec_of(int slot) const {
  const NodeSlot& mine = layout_.slots.at(static_cast<size_t>(slot));
  const NodeSlot& first = layout_.slots.front();
  NodeSpec spec;
  spec.command = plan_.command;
  spec.program_word = plan_.program_word;
  spec.local_rank_flag = plan_.passes_local_rank ? plan_.local_rank_option : "";
  spec.variables = variables_for(plan_, mine);
  spec.cores = mine.cores;
  spec.bind = plan_.bind.value;
  spec.gpus = plan_.nodes.at(static_cast<size_t>(mine.node)).gpus;
  spec.starts_mps = plan_.starts_mps;
  spec.output = plan_.output;
  spec.metrics = plan_.metrics;
  spec.sample_every_seconds = plan_.sample_every_seconds.value;
  spec.tensorflow_cluster = tensorflow_cluster_;
  // If the processes become the workers, no agent remains that could serve the rendezvous.
  const bool has_agents = plan_.mode.value != LaunchMode::Task;
  const bool is_v4 = first.address.find(':') == std::string::npos;  // Horovod supports IPv4 only

  contract::WorkerSpec& worker_spec = spec.first;
  worker_spec.rank = first_ranks_.at(static_cast<size_t>(slot));
  worker_spec.world_size = world_size_;
  worker_spec.local_world_size = mine.workers;
  worker_spec.node_rank = slot;
  worker_spec.nodes = static_cast<int>(layout_.slots.size());
  worker_spec.master_addr = layout_.master_addr;
  worker_spec.master_port = layout_.master_port;
  worker_spec.interface = mine.interface;
  worker_spec.run_id = plan_.run_id;
  worker_spec.run_directory = plan_.run_directory.value;
  worker_spec.attempt = layout_.attempt;
  worker_spec.max_restarts = plan_.max_restarts.value;
  worker_spec.role = plan_.role.value.empty() ? "default" : plan_.role.value;
  worker_spec.node = mine.name;
  worker_spec.horovod_addr = first.address;
  worker_spec.horovod_port = has_agents && is_v4 && !first.ports.empty() ? first.ports.back() : 0;
  spec.workers = mine.workers;
  for (int local = 0; local < mine.workers; ++local) {
    const auto& peers = slots_with_local_.at(static_cast<size_t>(local));
    spec.cross_ranks.push_back(
        static_cast<int>(std::lower_bound(peers.begin(), peers.end(), slot) - peers.begin()));
    spec.cross_sizes.push_back(static_cast<int>(peers.size()));
  }
  return spec;
}

std::vector<contract::WorkerSpec> NodeSpec::worker_specs() const {
  std::vector<contract::WorkerSpec> all;
  contract::WorkerSpec worker_spec = first;
  for (int local = 0; local < workers; ++local, ++worker_spec.rank) {
    worker_spec.local_rank = local;
    worker_spec.cross_rank = cross_ranks.at(static_cast<size_t>(local));
    worker_spec.cross_size = cross_sizes.at(static_cast<size_t>(local));
    all.push_back(worker_spec);
  }
  return all;
}

os::Environment worker_environment(const NodeSpec& spec,
                                   const contract::WorkerSpec& worker_spec,
                                   const os::Environment& agents_own) {
  return task_environment(spec, worker_spec, cluster::without_rank_variables(agents_own));
}

// insert_or_assign() for what must be right (variables of the plan, ranks), emplace() for defaults
// that the user, a module or a site may have set.
os::Environment task_environment(const NodeSpec& spec,
                                 const contract::WorkerSpec& worker_spec,
                                 os::Environment environment) {
  for (const auto& [name, value] : spec.variables) {
    environment.insert_or_assign(name, value);
  }
  const int threads = contract::threads_per_worker(spec.cores, worker_spec.local_world_size);
  environment.emplace(contract::kThreads, std::to_string(threads));
  contract::WorkerSpec whole = worker_spec;
  whole.tensorflow_cluster = spec.tensorflow_cluster;
  for (const auto& [name, value] : contract::to_environment(whole)) {
    environment.insert_or_assign(name, value);
  }
  for (const auto& [name, value] : contract::gentle_environment(whole)) {
    environment.emplace(name, value);
  }
  return environment;
}

}  // namespace lockstep::plan
