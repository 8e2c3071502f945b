// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>

#include "lockstep/strategy.h"

namespace lockstep::strategy::zero {

// Bytes of one worker at the end of backward, when the total is largest. Activations are not
// included; they depend on the batch.
struct MemoryNeed {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;  // state, and float32 master weights of 16-bit parameters
  int64_t averages = 0;
  int64_t buffers = 0;

  int64_t total() const { return parameters + gradients + optimizer + averages + buffers; }
};

// Further properties of the training.
struct MemoryRequest {
  bool accumulates = false;  // steps have several micro-batches
  bool averages = false;     // averaged weights are kept
};

// Memory of rank 0, whose shard is never smaller than that of another rank.
MemoryNeed memory_need(const torch::nn::Module& model,
                       const torch::optim::Optimizer& optimizer,
                       const ZeroOptions& options,
                       int workers,
                       MemoryRequest ask);

}  // namespace lockstep::strategy::zero
