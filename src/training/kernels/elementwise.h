// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// All matrices are row-major [rows, columns] on the GPU; columns is a multiple of 8. Sums over rows
// are computed in float32, overwrite their destination and are deterministic. `workspace` has
// column_sum_workspace() bytes.
int64_t column_sum_workspace(int64_t columns);

// GELU with the tanh approximation: before = input + bias, output = gelu(before). `before` can be
// the same memory as `input`, or null: not written. `bias` can be null.
void bias_gelu_forward(Bf16* output,
                       Bf16* before,
                       const Bf16* input,
                       const float* bias,
                       int64_t rows,
                       int64_t columns,
                       Stream stream);

// input_gradient = output_gradient * gelu'(before); both gradients can be the same memory.
// bias_gradient [columns] = the sum of input_gradient over rows, unless null.
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

// joined [rows, 3 x columns] = first, second, third [rows, columns], side by side; sums [3 x
// columns] = the sums of `joined` over rows, unless null. `workspace` has column_sum_workspace(3 x
// columns) bytes.
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
