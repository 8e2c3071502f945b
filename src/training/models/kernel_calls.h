// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include "training/kernels/matmul.h"

// Calls of the kernels with tensors. Each call allocates its results and enqueues the kernel on the
// current stream. Autograd graphs are not recorded.
namespace lockstep::models {

kernels::Stream stream();

kernels::Bf16* bf16(const torch::Tensor& tensor);

float* f32(const torch::Tensor& tensor);

torch::Tensor new_bf16(const torch::Tensor& like, at::IntArrayRef shape);

torch::Tensor new_f32(const torch::Tensor& like, at::IntArrayRef shape);

torch::Tensor new_workspace(const torch::Tensor& like, int64_t bytes);

// Always copies, and does so with an operator: a strategy that partitions the parameters gathers
// the parameter for this operator and can release it afterwards.
torch::Tensor copy_bf16(const torch::Tensor& parameter);

torch::Tensor copy_f32(const torch::Tensor& parameter);

struct Normed {
  torch::Tensor output;
  torch::Tensor mean;
  torch::Tensor rstd;
};

Normed norm_forward(const torch::Tensor& input,
                    const torch::Tensor& weight,
                    const torch::Tensor& bias);

struct NormGradient {
  torch::Tensor input;
  torch::Tensor weight;
  torch::Tensor bias;
  torch::Tensor column_sum;
};

NormGradient norm_backward(const torch::Tensor& output_gradient,
                           const torch::Tensor& input,
                           const Normed& normed,
                           const torch::Tensor& weight,
                           const torch::Tensor& residual,
                           bool sums_columns);

// Computes input [rows, in] x weight [in, out], followed by the epilogue.
struct Linear {
  const torch::Tensor& input;
  const torch::Tensor& weight;
  const torch::Tensor& bias;
  kernels::Epilogue epilogue = kernels::Epilogue::Bias;
  torch::Tensor aux = {};
  torch::Tensor addend = {};
};

torch::Tensor linear(kernels::Matmul& matmul, const Linear& call);

// Computes gradient [rows, out] x weight [in, out] transposed.
torch::Tensor input_gradient(kernels::Matmul& matmul,
                             const torch::Tensor& gradient,
                             const torch::Tensor& weight,
                             kernels::Epilogue epilogue = kernels::Epilogue::None,
                             const torch::Tensor& aux = {});

// Computes input [rows, in] transposed x gradient [rows, out] in float32.
torch::Tensor weight_gradient(kernels::Matmul& matmul,
                              const torch::Tensor& input,
                              const torch::Tensor& gradient);

torch::Tensor column_sum(const torch::Tensor& matrix);

}  // namespace lockstep::models
