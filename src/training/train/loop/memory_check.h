// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "training/strategy/zero/memory.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

enum class MemoryLocation { Node, Gpu };

// The memory that is available to a worker: that of its node or GPU, divided by the number of
// workers that share it.
struct WorkerMemory {
  int64_t bytes = 0;
  int64_t sharing = 1;
};

// Compares the memory that `stage` needs in `location` with the available memory. Returns one line
// for each group of workers with the same memory. Throws an Error that names the first worker with
// too little memory and the lowest stage that fits.
std::vector<std::string> compare_memory(const std::array<strategy::zero::MemoryNeed, 4>& by_stage,
                                        int stage,
                                        const std::vector<WorkerMemory>& workers,
                                        MemoryLocation location = MemoryLocation::Node);

// Like compare_memory(), for a model that -s deepspeed is about to adopt. All workers must call it.
std::vector<std::string> check_memory(SessionParts& session,
                                      const torch::nn::Module& model,
                                      const torch::optim::Optimizer& optimizer,
                                      const StrategyOptions& options,
                                      strategy::zero::MemoryRequest ask);

}  // namespace lockstep::train
