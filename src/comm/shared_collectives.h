// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include "comm/shared_board.h"
#include "lockstep/communicator.h"

// Collectives over a board that all workers of a gang share; each adds up in the order of ranks.
// Tensors are as transports take them: contiguous, on the CPU, of a type that is reduced.
namespace lockstep::comm {

// Returns when all have called it.
void meet(SharedBoard& board, const CallSignature& call);

void all_reduce(SharedBoard& board, torch::Tensor& tensor, Reduction reduction);
void broadcast(SharedBoard& board, torch::Tensor& tensor, int root);
void all_gather(SharedBoard& board, torch::Tensor& output, const torch::Tensor& input);
void reduce_scatter(SharedBoard& board, torch::Tensor& output, const torch::Tensor& input);

}  // namespace lockstep::comm
