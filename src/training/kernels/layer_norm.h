// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/fp8.h"
#include "training/kernels/stream.h"

namespace lockstep::kernels {

// All matrices are [rows, columns], row after row, on the GPU; columns is a multiple of 8. Sums are
// taken in float32.

// output = LayerNorm(input + branch) * weight + bias, by row. `branch` may be null. `sum`, which
// may be `input` itself and is null where there is no branch, is given input + branch. `mean` and
// `rstd` (1 / standard deviation), [rows], are for backward. `fp8`, unless null, receives
// the output in e4m3, multiplied by `scale`, and `history` its maximum; `output` can then be null.
struct LayerNormForward {
  Bf16* output = nullptr;
  Fp8* fp8 = nullptr;
  const Fp8Scale* scale = nullptr;
  Fp8History* history = nullptr;  // can be null
  Bf16* sum = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  const Bf16* input = nullptr;
  const Bf16* branch = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  float epsilon = 1e-5F;
};
void layer_norm_forward(const LayerNormForward& call, Stream stream);

// input_gradient = the gradient with respect to what was normalised, plus `residual` if that is not
// null (which may be the same memory). `input` is what was normalised (LayerNormForward::sum, or
// its input). weight_gradient and bias_gradient, [columns], are overwritten; so is column_sum, the
// sums of input_gradient over all rows (after residual was added), unless it is null. The same
// inputs give the same bits. `workspace` is layer_norm_workspace() bytes.
struct LayerNormBackward {
  Bf16* input_gradient = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
  float* column_sum = nullptr;
  const Bf16* output_gradient = nullptr;
  const Bf16* residual = nullptr;
  const Bf16* input = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* weight = nullptr;
  void* workspace = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
};
void layer_norm_backward(const LayerNormBackward& call, Stream stream);
int64_t layer_norm_workspace(int64_t columns);

}  // namespace lockstep::kernels
