// SPDX-License-Identifier: Apache-2.0
//
// Fails before training instead of in the first backward pass, with the stage that would fit. The
// estimate covers parameters, gradients, optimizer state, averages and exchange buffers, but not
// activations, which depend on the batch. It is therefore a lower bound: a training that passes can
// still run out of memory.
#include "training/train/loop/memory_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <utility>

#include "common/base/text.h"
#include "common/cluster/available_memory.h"
#include "lockstep/error.h"
#include "training/comm/format_ranks.h"
#include "training/train/loop/device_memory.h"

namespace lockstep::train {
namespace {

using strategy::zero::MemoryNeed;

std::string text_of(int64_t bytes) {
  return format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, bytes)));
}

// Lists the needs of higher stages up to the first that fits.
[[noreturn]] void refuse(const std::array<MemoryNeed, 4>& by_stage,
                         int stage,
                         size_t rank,
                         const WorkerMemory& there,
                         MemoryLocation location) {
  Error error(ExitCode::Usage,
              fmt::format("cannot train at ZeRO stage {}: a worker needs {} in addition to its "
                          "activations",
                          stage,
                          text_of(by_stage.at(static_cast<size_t>(stage)).total())));
  error.fact(fmt::format("rank {} has", rank),
             fmt::format("{}, {} share{} its {}",
                         text_of(there.bytes),
                         plural(there.sharing, "worker"),
                         there.sharing == 1 ? "s" : "",
                         location == MemoryLocation::Gpu ? "GPU" : "node"));
  for (size_t higher = static_cast<size_t>(stage) + 1; higher < by_stage.size(); ++higher) {
    error.fact(fmt::format("stage {} needs", higher), text_of(by_stage.at(higher).total()));
    if (by_stage.at(higher).total() <= there.bytes) {
      throw std::move(error).hint(fmt::format("--zero-stage {}", higher));
    }
  }
  throw std::move(error).hint(location == MemoryLocation::Gpu
                                  ? "more GPUs, --precision bf16, or offload_optimizer"
                                  : "more workers on more nodes, or --precision bf16");
}

std::string sum_of(const MemoryNeed& need) {
  std::vector<std::string> terms;
  const auto add = [&terms](int64_t bytes, const char* name) {
    if (bytes > 0) {
      terms.push_back(fmt::format("{} {}", text_of(bytes), name));
    }
  };
  add(need.parameters, "parameters");
  add(need.gradients, "gradients");
  add(need.optimizer, "optimizer");
  add(need.averages, "averages");
  add(need.buffers, "buffers");
  return terms.size() == 1 ? terms.front()
                           : fmt::format("{} = {}", fmt::join(terms, " + "), text_of(need.total()));
}

// Identifies the GPU or node whose memory a worker shares with others.
std::string location_name(const SessionParts& session, MemoryLocation location) {
  const std::string node = std::to_string(session.placement.worker.node_rank);
  return location == MemoryLocation::Node ? node : node + " " + device_name(session.device);
}

// Text "BYTES PLACE" of each worker. Workers with the same place share its memory.
std::vector<WorkerMemory> gather(SessionParts& session, int64_t bytes, MemoryLocation location) {
  const std::vector<std::string> all = session.communicator->all_gather_bytes(
      fmt::format("{} {}", bytes, location_name(session, location)));
  std::map<std::string, int64_t> sharing;
  for (const std::string& each : all) {
    ++sharing[each.substr(each.find(' '))];
  }
  std::vector<WorkerMemory> workers;
  for (const std::string& each : all) {
    workers.push_back({.bytes = std::stoll(each), .sharing = sharing[each.substr(each.find(' '))]});
  }
  return workers;
}

}  // namespace

std::vector<std::string> compare_memory(const std::array<MemoryNeed, 4>& by_stage,
                                        int stage,
                                        const std::vector<WorkerMemory>& workers,
                                        MemoryLocation location) {
  const MemoryNeed& need = by_stage.at(static_cast<size_t>(stage));
  std::map<std::string, std::vector<int>> by_text;
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    if (need.total() > workers[rank].bytes) {
      refuse(by_stage, stage, rank, workers[rank], location);
    }
    by_text[text_of(workers[rank].bytes)].push_back(static_cast<int>(rank));
  }
  std::vector<std::string> lines;
  for (const auto& [available, ranks] : by_text) {
    lines.push_back(fmt::format("ZeRO stage {}, {}{}: {} of {}{}",
                                stage,
                                comm::format_ranks(ranks),
                                ranks.size() == 1 ? "" : " each",
                                sum_of(need),
                                available,
                                location == MemoryLocation::Gpu ? " on the GPU" : ""));
  }
  return lines;
}

// All stages are computed, for the hint. With offload, optimizer state and averages are moved to a
// second comparison with the memory of the node.
std::vector<std::string> check_memory(SessionParts& session,
                                      const torch::nn::Module& model,
                                      const torch::optim::Optimizer& optimizer,
                                      const StrategyOptions& options,
                                      strategy::zero::MemoryRequest ask) {
  std::array<MemoryNeed, 4> by_stage;
  for (size_t stage = 0; stage < by_stage.size(); ++stage) {
    ZeroOptions zero = options.zero;
    zero.stage = static_cast<int>(stage);
    by_stage.at(stage) =
        strategy::zero::memory_need(model, optimizer, zero, session.communicator->size(), ask);
  }
  int64_t made = 0;  // memory of the existing parameters, which is reused or freed
  for (const torch::Tensor& parameter : model.parameters()) {
    made += parameter.numel() * parameter.element_size();
  }
  const int64_t local = std::max(1, session.placement.worker.local_world_size);
  const int64_t of_node = cluster::available_memory_bytes() / local;
  const std::optional<int64_t> of_gpu = free_device_bytes(session.device);
  // All workers must agree on the branch, because both contain collectives.
  torch::Tensor known = torch::full({1}, of_gpu ? 1 : 0, torch::kInt64);
  session.communicator->all_reduce(known, Reduction::Min);
  if (known.item<int64_t>() == 0) {
    return compare_memory(
        by_stage, options.zero.stage, gather(session, of_node + made, MemoryLocation::Node));
  }
  // Several workers can share a GPU. Each has already allocated its model, or is about to.
  std::vector<WorkerMemory> workers = gather(session, *of_gpu, MemoryLocation::Gpu);
  for (WorkerMemory& worker : workers) {
    worker.bytes = worker.bytes / worker.sharing + made;
  }
  std::array<MemoryNeed, 4> elsewhere;  // in host memory
  for (size_t stage = 0; options.zero.offload_optimizer && stage < by_stage.size(); ++stage) {
    elsewhere.at(stage).optimizer = std::exchange(by_stage.at(stage).optimizer, 0);
    elsewhere.at(stage).averages = std::exchange(by_stage.at(stage).averages, 0);
  }
  std::vector<std::string> lines =
      compare_memory(by_stage, options.zero.stage, workers, MemoryLocation::Gpu);
  if (options.zero.offload_optimizer) {
    for (std::string& line : compare_memory(
             elsewhere, options.zero.stage, gather(session, of_node, MemoryLocation::Node))) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace lockstep::train
