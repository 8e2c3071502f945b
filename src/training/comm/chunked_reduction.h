// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/types.h>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// How a transport moves bytes of types that it cannot add. Both functions take flat tensors of
// bytes. `input` of all_to_all has one equal part for each worker, and `output` receives one from
// each.
struct ChunkExchange {
  std::function<void(torch::Tensor& output, torch::Tensor& input)> all_to_all;
  std::function<void(torch::Tensor& output, const torch::Tensor& input)> all_gather;
};

// Half and bfloat16, which Gloo and MPI add inexactly or not at all.
bool is_half(torch::ScalarType type);

// Worker r reduces part r of all tensors in the order of ranks, then all workers gather the parts.
// This transfers as many bytes as a ring, is repeatable, and rounds 16-bit types once instead of at
// each hop.
void chunked_all_reduce(torch::Tensor& tensor,
                        Reduction reduction,
                        int size,
                        const ChunkExchange& exchange);

// The first half of chunked_all_reduce().
void chunked_reduce_scatter(torch::Tensor& output,
                            const torch::Tensor& input,
                            int size,
                            const ChunkExchange& exchange);

}  // namespace lockstep::comm
