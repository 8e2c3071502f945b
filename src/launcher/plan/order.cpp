// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/order.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "common/cluster/task_place.h"

namespace lockstep::plan {
namespace {

// TF_CONFIG contains the address of every worker. Linux limits one variable to 128 KiB, so larger
// runs get no TF_CONFIG.
constexpr int kMostTensorflowWorkers = 2048;

std::vector<std::string> tensorflow_cluster(const Assembly& assembly) {
  std::vector<std::string> workers;
  for (const Seat& seat : assembly.seats) {
    const bool is_v6 = seat.address.find(':') != std::string::npos;
    for (int local = 0; local < seat.workers; ++local) {
      const auto port = static_cast<size_t>(local) < seat.ports.size()
                            ? seat.ports[static_cast<size_t>(local)]
                            : 0;
      workers.push_back(is_v6 ? fmt::format("[{}]:{}", seat.address, port)
                              : fmt::format("{}:{}", seat.address, port));
    }
  }
  return workers;
}

os::Environment variables_for(const LaunchPlan& plan, const Seat& seat) {
  os::Environment variables;
  for (const auto& [name, value] : plan.variables) {
    variables.insert_or_assign(name, value.value);
  }
  for (const auto& [name, value] : plan.nodes.at(static_cast<size_t>(seat.node)).variables) {
    variables.insert_or_assign(name, value.value);
  }
  return variables;
}

}  // namespace

int world_size(const Assembly& assembly) {
  return std::accumulate(
      assembly.seats.begin(), assembly.seats.end(), 0, [](int sum, const Seat& seat) {
        return sum + seat.workers;
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

OrderMaker::OrderMaker(const LaunchPlan& plan, const Assembly& assembly)
    : plan_(plan), assembly_(assembly), world_size_(world_size(assembly)) {
  int rank = 0;
  for (size_t seat = 0; seat < assembly.seats.size(); ++seat) {
    const int workers = assembly.seats[seat].workers;
    first_ranks_.push_back(rank);
    rank += workers;
    seats_with_local_.resize(std::max(seats_with_local_.size(), static_cast<size_t>(workers)));
    for (int local = 0; local < workers; ++local) {
      seats_with_local_[static_cast<size_t>(local)].push_back(static_cast<int>(seat));
    }
  }
  if (world_size_ <= kMostTensorflowWorkers) {
    tensorflow_cluster_ = tensorflow_cluster(assembly);
  }
}

NodeOrder OrderMaker::order_of(int seat) const {
  const Seat& mine = assembly_.seats.at(static_cast<size_t>(seat));
  const Seat& first = assembly_.seats.front();
  NodeOrder order;
  order.command = plan_.command;
  order.program_word = plan_.program_word;
  order.local_rank_flag = plan_.passes_local_rank ? plan_.local_rank_option : "";
  order.variables = variables_for(plan_, mine);
  order.cores = mine.cores;
  order.bind = plan_.bind.value;
  order.gpus = plan_.nodes.at(static_cast<size_t>(mine.node)).gpus;
  order.output = plan_.output;
  order.metrics = plan_.metrics;
  order.sample_every_seconds = plan_.sample_every_seconds.value;
  order.tensorflow_cluster = tensorflow_cluster_;
  // If the processes become the workers, no agent remains that could serve the rendezvous.
  const bool has_agents = plan_.way.value != Way::Task;
  const bool is_v4 = first.address.find(':') == std::string::npos;  // Horovod supports IPv4 only

  contract::WorkerPlace& place = order.first;
  place.rank = first_ranks_.at(static_cast<size_t>(seat));
  place.world_size = world_size_;
  place.local_world_size = mine.workers;
  place.node_rank = seat;
  place.nodes = static_cast<int>(assembly_.seats.size());
  place.master_addr = assembly_.master_addr;
  place.master_port = assembly_.master_port;
  place.interface = mine.interface;
  place.run_id = plan_.run_id;
  place.run_directory = plan_.run_directory.value;
  place.attempt = assembly_.attempt;
  place.max_restarts = plan_.max_restarts.value;
  place.role = plan_.role.value.empty() ? "default" : plan_.role.value;
  place.node = mine.name;
  place.horovod_addr = first.address;
  place.horovod_port = has_agents && is_v4 && !first.ports.empty() ? first.ports.back() : 0;
  order.workers = mine.workers;
  for (int local = 0; local < mine.workers; ++local) {
    const auto& peers = seats_with_local_.at(static_cast<size_t>(local));
    order.cross_ranks.push_back(
        static_cast<int>(std::lower_bound(peers.begin(), peers.end(), seat) - peers.begin()));
    order.cross_sizes.push_back(static_cast<int>(peers.size()));
  }
  return order;
}

std::vector<contract::WorkerPlace> NodeOrder::places() const {
  std::vector<contract::WorkerPlace> all;
  contract::WorkerPlace place = first;
  for (int local = 0; local < workers; ++local, ++place.rank) {
    place.local_rank = local;
    place.cross_rank = cross_ranks.at(static_cast<size_t>(local));
    place.cross_size = cross_sizes.at(static_cast<size_t>(local));
    all.push_back(place);
  }
  return all;
}

os::Environment worker_environment(const NodeOrder& order,
                                   const contract::WorkerPlace& place,
                                   const os::Environment& agents_own) {
  return task_environment(order, place, cluster::without_places(agents_own));
}

os::Environment task_environment(const NodeOrder& order,
                                 const contract::WorkerPlace& place,
                                 os::Environment environment) {
  for (const auto& [name, value] : order.variables) {
    environment.insert_or_assign(name, value);
  }
  const int threads = contract::threads_per_worker(order.cores, place.local_world_size);
  environment.emplace(contract::kThreads, std::to_string(threads));
  contract::WorkerPlace whole = place;
  whole.tensorflow_cluster = order.tensorflow_cluster;
  for (const auto& [name, value] : contract::to_environment(whole)) {
    environment.insert_or_assign(name, value);
  }
  for (const auto& [name, value] : contract::gentle_environment(whole)) {
    environment.emplace(name, value);
  }
  return environment;
}

}  // namespace lockstep::plan
