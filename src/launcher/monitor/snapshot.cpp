// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/snapshot.h"

#include <algorithm>

namespace lockstep::monitor {

std::string name_of(Mark::Kind kind) {
  switch (kind) {
    case Mark::Kind::Start:
      return "start";
    case Mark::Kind::Restart:
      return "restart";
    case Mark::Kind::Checkpoint:
      return "checkpoint";
    case Mark::Kind::Evaluation:
      return "evaluation";
    case Mark::Kind::End:
      return "end";
  }
  return "";
}

const contract::GpuSample* find_gpu(const NodeView& node, int index) {
  const auto& gpus = node.sample.gpus;
  const auto found = std::find_if(
      gpus.begin(), gpus.end(), [index](const auto& gpu) { return gpu.index == index; });
  return found == gpus.end() ? nullptr : &*found;
}

// If ranks share a GPU, its utilization cannot be attributed to one of them.
std::optional<int> find_owner(const NodeView& node, int gpu) {
  std::optional<int> owner;
  for (const contract::WorkerSample& worker : node.sample.workers) {
    if (std::find(worker.gpus.begin(), worker.gpus.end(), gpu) == worker.gpus.end()) {
      continue;
    }
    if (owner) {
      return std::nullopt;
    }
    owner = worker.rank;
  }
  return owner;
}

}  // namespace lockstep::monitor
