// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/torch.h>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// How a transport moves bytes that it cannot add. Both take flat tensors of bytes; `input` of
// all_to_all has an equal part for each worker, and `output` gets one from each.
struct PartExchange {
  std::function<void(torch::Tensor& output, torch::Tensor& input)> all_to_all;
  std::function<void(torch::Tensor& output, const torch::Tensor& input)> all_gather;
};

// Half or bfloat16: types that transports of others add badly or not at all.
bool is_half(torch::ScalarType type);

// Worker r reduces the r-th part of all in the order of ranks, then all gather the parts: the bytes
// of a ring, repeatable, and half types are rounded once and not at each hop.
void all_reduce_by_parts(torch::Tensor& tensor,
                         Reduction reduction,
                         int size,
                         const PartExchange& exchange);

// The first half of that.
void reduce_scatter_by_parts(torch::Tensor& output,
                             const torch::Tensor& input,
                             int size,
                             const PartExchange& exchange);

}  // namespace lockstep::comm
