// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// All matrices are [rows, columns], row after row, on the GPU; columns is a multiple of 8. Sums
// over rows are taken in float32, overwrite what was there, and have the same bits every time.
// `workspace` is column_sum_workspace() bytes.
int64_t column_sum_workspace(int64_t columns);

// GELU, the approximation by tanh. before = input + bias (in place if the same memory; not written
// if null), output = gelu(input + bias). `bias` may be null.
void bias_gelu_forward(Bf16* output,
                       Bf16* before,
                       const Bf16* input,
                       const float* bias,
                       int64_t rows,
                       int64_t columns,
                       Stream stream);

// input_gradient = output_gradient * gelu'(before), which may be the same memory as
// output_gradient; bias_gradient [columns] = its sum over rows, unless null.
void gelu_backward(Bf16* input_gradient,
                   float* bias_gradient,
                   const Bf16* output_gradient,
                   const Bf16* before,
                   void* workspace,
                   int64_t rows,
                   int64_t columns,
                   Stream stream);

// sums[columns] = the sum over rows of `matrix`.
void column_sum(
    float* sums, const Bf16* matrix, void* workspace, int64_t rows, int64_t columns, Stream stream);

// joined [rows, 3 x columns] = first, second, third [rows, columns], side by side; sums
// [3 x columns] = the sum of that over rows, unless null. The workspace is that of 3 x columns.
void join_columns(Bf16* joined,
                  float* sums,
                  const Bf16* first,
                  const Bf16* second,
                  const Bf16* third,
                  void* workspace,
                  int64_t rows,
                  int64_t columns,
                  Stream stream);

}  // namespace lockstep::kernels
