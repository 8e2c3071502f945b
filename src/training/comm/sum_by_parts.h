// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/types.h>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// How a transport moves bytes of types that it cannot add. Both functions take flat tensors of
// bytes. `input` of all_to_all has one equal part for each worker, and `output` receives one from
// each.
struct PartExchange {
  std::function<void(torch::Tensor& output, torch::Tensor& input)> all_to_all;
  std::function<void(torch::Tensor& output, const torch::Tensor& input)> all_gather;
};

// Half and bfloat16, which Gloo and MPI add inexactly or not at all.
bool is_half(torch::ScalarType type);

// Worker r reduces part r of all tensors in the order of ranks, then all workers gather the parts.
// This transfers as many bytes as a ring, is repeatable, and rounds 16-bit types once instead of at
// each hop.
void all_reduce_by_parts(torch::Tensor& tensor,
                         Reduction reduction,
                         int size,
                         const PartExchange& exchange);

// The first half of all_reduce_by_parts().
void reduce_scatter_by_parts(torch::Tensor& output,
                             const torch::Tensor& input,
                             int size,
                             const PartExchange& exchange);

}  // namespace lockstep::comm
