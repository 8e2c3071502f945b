// SPDX-License-Identifier: Apache-2.0
#include "training/models/attention_calls.h"

namespace lockstep::models {
namespace {

using torch::Tensor;

// Returns a view of query, key or value: [N, heads, T, width of a head].
Tensor part_of(const Tensor& mixed, int64_t which, const AttentionShape& shape) {
  const int64_t width = mixed.size(1) / 3;
  return mixed.view({shape.count, shape.length, 3, shape.heads, width / shape.heads})
      .select(2, which)
      .transpose(1, 2);
}

// Converts [N, heads, T, width of a head] to the row-major matrix [N x T, width], in which a row
// contains all heads.
Tensor as_rows(const Tensor& by_head) {
  const Tensor by_row = by_head.transpose(1, 2);
  return by_row.reshape({by_row.size(0) * by_row.size(1), by_row.size(2) * by_row.size(3)});
}

Tensor as_heads(const Tensor& rows, const AttentionShape& shape) {
  return rows.view({shape.count, shape.length, shape.heads, rows.size(1) / shape.heads})
      .transpose(1, 2);
}

}  // namespace

Attended attend_forward(const Tensor& mixed, const AttentionShape& shape) {
  const auto result = at::_scaled_dot_product_cudnn_attention(part_of(mixed, 0, shape),
                                                              part_of(mixed, 1, shape),
                                                              part_of(mixed, 2, shape),
                                                              /*attn_bias=*/{},
                                                              /*compute_log_sumexp=*/true,
                                                              /*dropout_p=*/0,
                                                              /*is_causal=*/true);
  return {
      as_rows(std::get<0>(result)), std::get<1>(result), std::get<6>(result), std::get<7>(result)};
}

AttentionGradient attend_backward(const Tensor& gradient,
                                  const Tensor& mixed,
                                  const Attended& seen,
                                  const AttentionShape& shape) {
  const auto [query, key, value] =
      at::_scaled_dot_product_cudnn_attention_backward(as_heads(gradient, shape),
                                                       part_of(mixed, 0, shape),
                                                       part_of(mixed, 1, shape),
                                                       part_of(mixed, 2, shape),
                                                       as_heads(seen.output, shape),
                                                       seen.log_sums,
                                                       seen.seed,
                                                       seen.offset,
                                                       /*attn_bias=*/{},
                                                       /*cum_seq_q=*/{},
                                                       /*cum_seq_k=*/{},
                                                       shape.length,
                                                       shape.length,
                                                       /*dropout_p=*/0,
                                                       /*is_causal=*/true);
  return {as_rows(query), as_rows(key), as_rows(value)};
}

}  // namespace lockstep::models
