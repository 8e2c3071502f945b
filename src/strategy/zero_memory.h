// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/torch.h>

#include "lockstep/strategy.h"

namespace lockstep::strategy::zero {

// Bytes that one worker holds at the end of backward, when it holds most; without what the model
// keeps for backward, which depends on the batch.
struct MemoryNeed {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;  // its state, and its float32 copies of shorter parameters
  int64_t averages = 0;
  int64_t buffers = 0;

  int64_t total() const { return parameters + gradients + optimizer + averages + buffers; }
};

// What else a training asks for.
struct MemoryAsk {
  bool accumulates = false;  // steps have several micro-batches
  bool averages = false;     // of the weights
};

// Of the first worker, whose share is never smaller than another's.
MemoryNeed memory_need(const torch::nn::Module& model,
                       const torch::optim::Optimizer& optimizer,
                       const ZeroOptions& options,
                       int workers,
                       MemoryAsk ask);

}  // namespace lockstep::strategy::zero
