// SPDX-License-Identifier: Apache-2.0
#include "training/models/kernel_calls.h"

#include <c10/cuda/CUDAStream.h>

#include "training/kernels/elementwise.h"
#include "training/kernels/layer_norm.h"

namespace lockstep::models {
namespace {

using kernels::Bf16;
using kernels::Epilogue;
using torch::Tensor;

// Epsilon of layer norm, as in GPT-2 and by default in PyTorch.
constexpr float kEpsilon = 1e-5F;

}  // namespace

kernels::Stream stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

Bf16* bf16(const Tensor& tensor) {
  return static_cast<Bf16*>(tensor.data_ptr());
}

float* f32(const Tensor& tensor) {
  return tensor.data_ptr<float>();
}

Tensor new_bf16(const Tensor& like, at::IntArrayRef shape) {
  return torch::empty(shape, like.options().dtype(torch::kBFloat16).requires_grad(false));
}

Tensor new_f32(const Tensor& like, at::IntArrayRef shape) {
  return torch::empty(shape, like.options().dtype(torch::kFloat32).requires_grad(false));
}

// Freed when the caller returns, while the kernel may still run: the caching allocator gives the
// memory only to later work of the same stream.
Tensor new_workspace(const Tensor& like, int64_t bytes) {
  return torch::empty({bytes}, like.options().dtype(torch::kUInt8).requires_grad(false));
}

// `copy` is set even if the type already fits: kernels get raw pointers, and the memory of a
// parameter is valid only during an operator (ParameterCache).
Tensor copy_bf16(const Tensor& parameter) {
  return parameter.detach().to(torch::kBFloat16, /*non_blocking=*/false, /*copy=*/true);
}

Tensor copy_f32(const Tensor& parameter) {
  return parameter.detach().to(torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
}

Normed norm_forward(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const int64_t rows = input.size(0);
  const int64_t columns = input.size(1);
  Normed result{new_bf16(input, {rows, columns}), new_f32(input, {rows}), new_f32(input, {rows})};
  kernels::layer_norm_forward({.output = bf16(result.output),
                               .mean = f32(result.mean),
                               .rstd = f32(result.rstd),
                               .input = bf16(input),
                               .weight = f32(weight),
                               .bias = f32(bias),
                               .rows = rows,
                               .columns = columns,
                               .epsilon = kEpsilon},
                              stream());
  return result;
}

NormGradient norm_backward(const Tensor& output_gradient,
                           const Tensor& input,
                           const Normed& normed,
                           const Tensor& weight,
                           const Tensor& residual,
                           bool sums_columns) {
  const int64_t rows = input.size(0);
  const int64_t columns = input.size(1);
  NormGradient result{new_bf16(input, {rows, columns}),
                      new_f32(input, {columns}),
                      new_f32(input, {columns}),
                      sums_columns ? new_f32(input, {columns}) : Tensor()};
  const Tensor workspace = new_workspace(input, kernels::layer_norm_workspace(columns));
  kernels::layer_norm_backward({.input_gradient = bf16(result.input),
                                .weight_gradient = f32(result.weight),
                                .bias_gradient = f32(result.bias),
                                .column_sum = sums_columns ? f32(result.column_sum) : nullptr,
                                .output_gradient = bf16(output_gradient),
                                .residual = residual.defined() ? bf16(residual) : nullptr,
                                .input = bf16(input),
                                .mean = f32(normed.mean),
                                .rstd = f32(normed.rstd),
                                .weight = f32(weight),
                                .workspace = workspace.data_ptr(),
                                .rows = rows,
                                .columns = columns},
                               stream());
  return result;
}

// The three products of a linear layer y = x W + b, with x [rows, in] and W [in, out]:
//
//   linear()            y  = x W       [rows, in] x [in, out]
//   input_gradient()    dx = dy W^T    [rows, out] x [out, in]
//   weight_gradient()   dW = x^T dy    [in, rows] x [rows, out], in float32: a sum over all rows
Tensor linear(kernels::Matmul& matmul, const Linear& call) {
  const int64_t rows = call.input.size(0);
  Tensor output = new_bf16(call.input, {rows, call.weight.size(1)});
  matmul.run({.output = output.data_ptr(),
              .left = bf16(call.input),
              .right = bf16(call.weight),
              .m = rows,
              .n = call.weight.size(1),
              .k = call.weight.size(0),
              .epilogue = call.epilogue,
              .bias = bf16(call.bias),
              .aux = call.aux.defined() ? bf16(call.aux) : nullptr,
              .addend = call.addend.defined() ? bf16(call.addend) : nullptr},
             stream());
  return output;
}

Tensor input_gradient(kernels::Matmul& matmul,
                      const Tensor& gradient,
                      const Tensor& weight,
                      Epilogue epilogue,
                      const Tensor& aux) {
  const int64_t rows = gradient.size(0);
  Tensor output = new_bf16(gradient, {rows, weight.size(0)});
  matmul.run({.output = output.data_ptr(),
              .left = bf16(gradient),
              .right = bf16(weight),
              .right_transposed = true,
              .m = rows,
              .n = weight.size(0),
              .k = weight.size(1),
              .epilogue = epilogue,
              .aux = aux.defined() ? bf16(aux) : nullptr},
             stream());
  return output;
}

Tensor weight_gradient(kernels::Matmul& matmul, const Tensor& input, const Tensor& gradient) {
  Tensor output = new_f32(input, {input.size(1), gradient.size(1)});
  matmul.run({.output = output.data_ptr(),
              .float_output = true,
              .left = bf16(input),
              .right = bf16(gradient),
              .left_transposed = true,
              .m = input.size(1),
              .n = gradient.size(1),
              .k = input.size(0)},
             stream());
  return output;
}

Tensor column_sum(const Tensor& matrix) {
  const int64_t columns = matrix.size(1);
  Tensor sums = new_f32(matrix, {columns});
  const Tensor workspace = new_workspace(matrix, kernels::column_sum_workspace(columns));
  kernels::column_sum(
      f32(sums), bf16(matrix), workspace.data_ptr(), matrix.size(0), columns, stream());
  return sums;
}

}  // namespace lockstep::models
