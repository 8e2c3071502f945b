// SPDX-License-Identifier: Apache-2.0
#include "train/memory_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "base/text.h"
#include "cluster/available_memory.h"
#include "comm/format_ranks.h"
#include "lockstep/error.h"

namespace lockstep::train {
namespace {

using strategy::zero::MemoryNeed;

std::string text_of(int64_t bytes) {
  return format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, bytes)));
}

[[noreturn]] void refuse(const std::array<MemoryNeed, 4>& by_stage,
                         int stage,
                         size_t rank,
                         const WorkerMemory& there) {
  Error error(ExitCode::Usage,
              fmt::format("cannot train at ZeRO stage {}: a worker needs {} besides what it keeps "
                          "for backward",
                          stage,
                          text_of(by_stage.at(static_cast<size_t>(stage)).total())));
  error.fact(fmt::format("rank {} has", rank),
             fmt::format("{}, {} worker{} share{} its node",
                         text_of(there.bytes),
                         there.workers_on_node,
                         there.workers_on_node == 1 ? "" : "s",
                         there.workers_on_node == 1 ? "s" : ""));
  for (size_t higher = static_cast<size_t>(stage) + 1; higher < by_stage.size(); ++higher) {
    error.fact(fmt::format("stage {} needs", higher), text_of(by_stage.at(higher).total()));
    if (by_stage.at(higher).total() <= there.bytes) {
      throw std::move(error).hint(fmt::format("--zero-stage {}", higher));
    }
  }
  throw std::move(error).hint("more workers on more nodes, or --precision bf16");
}

}  // namespace

std::vector<std::string> compare_memory(const std::array<MemoryNeed, 4>& by_stage,
                                        int stage,
                                        const std::vector<WorkerMemory>& workers) {
  const MemoryNeed& need = by_stage.at(static_cast<size_t>(stage));
  std::map<std::string, std::vector<int>> by_text;
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    if (need.total() > workers[rank].bytes) {
      refuse(by_stage, stage, rank, workers[rank]);
    }
    by_text[text_of(workers[rank].bytes)].push_back(static_cast<int>(rank));
  }
  std::vector<std::string> lines;
  for (const auto& [available, ranks] : by_text) {
    lines.push_back(
        fmt::format("ZeRO stage {}, {}{}: {} parameters + {} gradients + {} optimizer + {} "
                    "buffers = {} of {}",
                    stage,
                    comm::format_ranks(ranks),
                    ranks.size() == 1 ? "" : " each",
                    text_of(need.parameters),
                    text_of(need.gradients),
                    text_of(need.optimizer),
                    text_of(need.buffers),
                    text_of(need.total()),
                    available));
  }
  return lines;
}

std::vector<std::string> check_memory(SessionParts& session,
                                      const torch::nn::Module& model,
                                      const torch::optim::Optimizer& optimizer,
                                      const StrategyOptions& options,
                                      bool accumulates) {
  std::array<MemoryNeed, 4> by_stage;
  for (size_t stage = 0; stage < by_stage.size(); ++stage) {
    ZeroOptions zero = options.zero;
    zero.stage = static_cast<int>(stage);
    by_stage.at(stage) = strategy::zero::memory_need(
        model, optimizer, zero, session.communicator->size(), accumulates);
  }
  int64_t made = 0;  // what the model has already will be used, or given back
  for (const torch::Tensor& parameter : model.parameters()) {
    made += parameter.numel() * parameter.element_size();
  }
  const int64_t local = std::max(1, session.placement.place.local_world_size);
  const torch::Tensor mine =
      torch::tensor({cluster::available_memory_bytes() / local + made, local}, torch::kInt64);
  const torch::Tensor all = session.communicator->all_gather(mine);
  std::vector<WorkerMemory> workers;
  for (int64_t rank = 0; rank < all.size(0); ++rank) {
    workers.push_back(
        {.bytes = all[rank][0].item<int64_t>(), .workers_on_node = all[rank][1].item<int64_t>()});
  }
  return compare_memory(by_stage, options.zero.stage, workers);
}

}  // namespace lockstep::train
