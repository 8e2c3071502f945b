// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/fp8.h"
#include "training/kernels/stream.h"

namespace lockstep::kernels {

// All matrices are row-major [rows, columns] on the GPU; columns is a multiple of 8. Sums are
// computed in float32.

// output = LayerNorm(input + branch) * weight + bias, for each row. `branch` can be null. `sum`
// receives input + branch; it can be the same memory as `input`, and is null if there is no branch.
// `mean` and `rstd` (1 / standard deviation), [rows], are needed by the backward pass. `fp8`,
// unless null, receives the output in e4m3, multiplied by `scale`, and `history` its maximum;
// `output` can then be null.
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

// input_gradient = the gradient with respect to the normalised values, plus `residual` if that is
// not null (it can be the same memory). `input` holds the normalised values (LayerNormForward::sum,
// or its input). weight_gradient and bias_gradient, [columns], are overwritten. So is column_sum,
// unless null: the sums of input_gradient, including `residual`, over all rows. Results are
// deterministic. `workspace` has layer_norm_workspace() bytes.
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
