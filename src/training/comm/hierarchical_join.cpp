// SPDX-License-Identifier: Apache-2.0
#include "training/comm/hierarchical_join.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "training/comm/hierarchical_communicator.h"
#include "training/comm/process_group.h"
#include "training/comm/shared_memory.h"

namespace lockstep::comm {
namespace {

// Agrees on one reason, or on none. Rank 0 reads the text of every worker and publishes the first
// that is not empty. The number of messages grows with the number of workers, not with its square.
std::string agree(c10d::Store& store,
                  const std::string& matter,
                  const contract::WorkerSpec& spec,
                  const std::string& word) {
  const auto key = [&](const std::string& of) {
    return fmt::format("node-first/{}/{}", matter, of);
  };
  store.set(key(std::to_string(spec.rank)), std::vector<uint8_t>(word.begin(), word.end()));
  if (spec.rank == 0) {
    std::vector<uint8_t> first;
    for (int peer = 0; peer < spec.world_size; ++peer) {
      const std::vector<uint8_t> theirs = store.get(key(std::to_string(peer)));
      first = first.empty() ? theirs : first;
    }
    store.set(key("all"), first);
  }
  const std::vector<uint8_t> all = store.get(key("all"));
  return {all.begin(), all.end()};
}

std::string find_obstacle(const contract::WorkerSpec& spec) {
  if (spec.nodes == 1) {
    return "all workers are on one node";
  }
  if (!has_gloo()) {
    return "this build of lockstep does not support Gloo";
  }
  if (spec.local_world_size == 1) {
    return fmt::format("node {} has one worker", spec.node_rank);
  }
  if (spec.local_world_size * spec.nodes != spec.world_size) {
    return fmt::format("node {} has {} of {} workers on {} nodes",
                       spec.node_rank,
                       spec.local_world_size,
                       spec.world_size,
                       spec.nodes);
  }
  if (spec.rank != spec.node_rank * spec.local_world_size + spec.local_rank) {
    return fmt::format("rank {} has local rank {} on node {}: ranks are not numbered node by node",
                       spec.rank,
                       spec.local_rank,
                       spec.node_rank);
  }
  return "";
}

}  // namespace

// All workers must take the same decision, but the facts are local: one node may lack space in
// /dev/shm. So they agree twice, before and after the attempt. A worker that fell back to Gloo
// alone would wait for peers that use the hierarchy.
HierarchicalJoin join_hierarchical(const compat::StorePtr& store,
                                   const contract::WorkerSpec& spec,
                                   std::chrono::milliseconds timeout) {
  std::string obstacle = agree(*store, "shape", spec, find_obstacle(spec));
  if (!obstacle.empty()) {
    return {.communicator = nullptr, .obstacle = obstacle};
  }
  const auto near = c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("node-first/node{}", spec.node_rank), store);
  auto inner = join_shared_memory(*near, spec.local_rank, spec.local_world_size, timeout);
  obstacle = agree(
      *store,
      "memory",
      spec,
      inner != nullptr
          ? ""
          : fmt::format("node {} is not one machine, or lacks space in /dev/shm", spec.node_rank));
  if (!obstacle.empty()) {
    return {.communicator = nullptr, .obstacle = obstacle};
  }
  contract::WorkerSpec across = spec;
  across.rank = spec.node_rank;
  across.world_size = spec.nodes;
  auto outer = join_gloo(c10::make_intrusive<c10d::PrefixStore>(
                             fmt::format("node-first/worker{}", spec.local_rank), store),
                         across,
                         timeout);
  auto communicator = make_hierarchical_communicator(
      std::move(inner), std::move(outer), spec.rank, spec.world_size, "node-first");
  // The server of the store must not exit before all workers have read it.
  communicator->barrier();
  return {.communicator = std::move(communicator), .obstacle = ""};
}

}  // namespace lockstep::comm
