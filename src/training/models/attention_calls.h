// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

// Causal attention of cuDNN on row-major matrices [rows, ...], the layout of the projections; there
// are count x length rows, one per token. These functions do not record autograd graphs.
namespace lockstep::models {

struct AttentionShape {
  int64_t count = 0;
  int64_t length = 0;
  int64_t heads = 0;
};

struct Attended {
  torch::Tensor output;  // [rows, width]
  torch::Tensor log_sums;
  torch::Tensor seed;
  torch::Tensor offset;
};

// `mixed` [rows, 3 x width] contains query, key and value next to each other.
Attended attend_forward(const torch::Tensor& mixed, const AttentionShape& shape);

struct AttentionGradient {
  torch::Tensor query;  // all three [rows, width]
  torch::Tensor key;
  torch::Tensor value;
};

AttentionGradient attend_backward(const torch::Tensor& gradient,
                                  const torch::Tensor& mixed,
                                  const Attended& seen,
                                  const AttentionShape& shape);

}  // namespace lockstep::models
