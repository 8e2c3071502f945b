// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include "lockstep/communicator.h"
#include "training/comm/shared_board.h"

// Collectives over a SharedBoard. Each adds in the order of ranks, so the result is equal on all
// workers to the bit. Tensors must be contiguous, on the CPU and of a type that reduce_all()
// supports.
namespace lockstep::comm {

// A barrier: returns when all workers have called it.
void meet(SharedBoard& board, const CallSignature& call);

void all_reduce(SharedBoard& board, torch::Tensor& tensor, Reduction reduction);
void broadcast(SharedBoard& board, torch::Tensor& tensor, int root);
void all_gather(SharedBoard& board, torch::Tensor& output, const torch::Tensor& input);
void reduce_scatter(SharedBoard& board, torch::Tensor& output, const torch::Tensor& input);

}  // namespace lockstep::comm
