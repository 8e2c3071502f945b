// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "strategy/zero_memory.h"
#include "train/session_parts.h"

namespace lockstep::train {

enum class MemoryPlace { Node, Gpu };

// What there is for each worker: its node's or its GPU's, shared among the workers there.
struct WorkerMemory {
  int64_t bytes = 0;
  int64_t sharing = 1;
};

// One line for each group of workers with the same memory: what the chosen stage holds in `place`,
// against what is there. Throws an Error that names the first worker for whom it does not fit, with
// the smallest stage that does.
std::vector<std::string> compare_memory(const std::array<strategy::zero::MemoryNeed, 4>& by_stage,
                                        int stage,
                                        const std::vector<WorkerMemory>& workers,
                                        MemoryPlace place = MemoryPlace::Node);

// The same for a model that is about to be trained under -s deepspeed; all workers call it.
std::vector<std::string> check_memory(SessionParts& session,
                                      const torch::nn::Module& model,
                                      const torch::optim::Optimizer& optimizer,
                                      const StrategyOptions& options,
                                      strategy::zero::MemoryAsk ask);

}  // namespace lockstep::train
