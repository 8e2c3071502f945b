// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include "training/kernels/matmul.h"
#include "training/models/fp8_state.h"
#include "training/models/kernel_calls.h"

// Calls of the fp8 kernels with tensors. Each call allocates its results and enqueues the kernel on
// the current stream. fp8 elements are bytes (kUInt8). Autograd graphs are not recorded.
namespace lockstep::models {

// A tensor in fp8, and the index of its scale.
struct Fp8Tensor {
  torch::Tensor plain;       // [rows, columns]
  torch::Tensor transposed;  // [columns, rows rounded up to 16]
  int64_t index = 0;
};

// Rounds `input` to e4m3.
Fp8Tensor cast(const torch::Tensor& input, const Fp8Scales& scales, int64_t index);

struct Fp8Gradient {
  Fp8Tensor values;    // e5m2
  torch::Tensor bias;  // float32, sums over rows
};

Fp8Gradient cast_gradient(const torch::Tensor& dy, const Fp8Scales& scales, int64_t index);

// Concatenates the gradients of query, key and value along the columns.
Fp8Gradient join_gradients(const torch::Tensor& query,
                           const torch::Tensor& key,
                           const torch::Tensor& value,
                           const Fp8Scales& scales,
                           int64_t index);

struct Fp8Norm {
  Fp8Tensor output;
  torch::Tensor mean;
  torch::Tensor rstd;
};

Fp8Norm fp8_norm_forward(const torch::Tensor& input,
                         const torch::Tensor& weight,
                         const torch::Tensor& bias,
                         const Fp8Scales& scales,
                         int64_t index);

// Computes gelu(product + bias).
Fp8Tensor fp8_gelu(const torch::Tensor& product,
                   const torch::Tensor& bias,
                   const Fp8Scales& scales,
                   int64_t index);

// Computes dy * gelu'(product + bias).
Fp8Gradient fp8_gelu_backward(const torch::Tensor& dy,
                              const torch::Tensor& product,
                              const torch::Tensor& bias,
                              const Fp8Scales& scales,
                              int64_t index);

// Computes input [rows, in] x weight [in, out], plus bias and addend if they are defined; bfloat16.
torch::Tensor fp8_linear(kernels::Matmul& matmul,
                         const Fp8Scales& scales,
                         const Fp8Tensor& input,
                         const Fp8Tensor& weight,
                         const torch::Tensor& bias = {},
                         const torch::Tensor& addend = {});

// Computes dy [rows, out] x weight [in, out] transposed; bfloat16.
torch::Tensor fp8_input_gradient(kernels::Matmul& matmul,
                                 const Fp8Scales& scales,
                                 const Fp8Tensor& dy,
                                 const Fp8Tensor& weight);

// Computes input [rows, in] transposed x dy [rows, out]; float32.
torch::Tensor fp8_weight_gradient(kernels::Matmul& matmul,
                                  const Fp8Scales& scales,
                                  const Fp8Tensor& input,
                                  const Fp8Tensor& dy);

}  // namespace lockstep::models
