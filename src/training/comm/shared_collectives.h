// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include "lockstep/communicator.h"
#include "training/comm/shared_memory_slots.h"

// Collectives over a SharedMemorySlots. Each adds in the order of ranks, so the result is equal on
// all workers to the bit. Tensors must be contiguous, on the CPU and of a type that reduce_all()
// supports.
namespace lockstep::comm {

// A barrier: returns when all workers have called it.
void barrier(SharedMemorySlots& slots, const CallSignature& call);

void all_reduce(SharedMemorySlots& slots, torch::Tensor& tensor, Reduction reduction);
void broadcast(SharedMemorySlots& slots, torch::Tensor& tensor, int root);
void all_gather(SharedMemorySlots& slots, torch::Tensor& output, const torch::Tensor& input);
void reduce_scatter(SharedMemorySlots& slots, torch::Tensor& output, const torch::Tensor& input);

}  // namespace lockstep::comm
