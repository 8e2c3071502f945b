// SPDX-License-Identifier: Apache-2.0
#include "training/models/fp8_calls.h"

#include "training/kernels/layer_norm.h"

namespace lockstep::models {
namespace {

using kernels::Fp8;
using kernels::Fp8Output;
using kernels::Fp8Type;
using kernels::OperandType;
using torch::Tensor;

constexpr float kEpsilon = 1e-5F;

// cuBLASLt multiplies fp8 matrices only as left [m, k] x right^T [n, k], both with the summed
// dimension last. Of the three products of a linear layer y = x W, with x [rows, in] and W [in,
// out], each needs other operands transposed:
//
//                              left               right              sums over
//   fp8_linear()           y   x                  W.transposed       in
//   fp8_input_gradient()   dx  dy                 W                  out
//   fp8_weight_gradient()  dW  x.transposed       dy.transposed      rows
//
// So every tensor is written twice, as it is and transposed (Fp8Tensor). x and W are e4m3, which
// has more digits; dy is e5m2, which has more range.

Fp8* fp8(const Tensor& tensor) {
  return static_cast<Fp8*>(tensor.data_ptr());
}

Tensor new_fp8(const Tensor& like, at::IntArrayRef shape) {
  return torch::empty(shape, like.options().dtype(torch::kUInt8).requires_grad(false));
}

Fp8Tensor new_pair(const Tensor& like, int64_t rows, int64_t columns, int64_t index) {
  return {
      new_fp8(like, {rows, columns}), new_fp8(like, {columns, kernels::fp8_stride(rows)}), index};
}

Fp8Output output_of(const Fp8Tensor& tensor, const Fp8Scales& scales, Fp8Type type) {
  return {.plain = fp8(tensor.plain),
          .transposed = fp8(tensor.transposed),
          .type = type,
          .scale = scales.scale(tensor.index),
          .history = scales.history(tensor.index)};
}

Fp8Gradient new_gradient(const Tensor& like, int64_t rows, int64_t columns, int64_t index) {
  return {new_pair(like, rows, columns, index), new_f32(like, {columns})};
}

}  // namespace

Fp8Tensor cast(const Tensor& input, const Fp8Scales& scales, int64_t index) {
  Fp8Tensor result = new_pair(input, input.size(0), input.size(1), index);
  kernels::cast_to_fp8(output_of(result, scales, Fp8Type::E4m3),
                       nullptr,
                       bf16(input),
                       nullptr,
                       input.size(0),
                       input.size(1),
                       stream());
  return result;
}

Fp8Gradient cast_gradient(const Tensor& dy, const Fp8Scales& scales, int64_t index) {
  const int64_t columns = dy.size(1);
  Fp8Gradient result = new_gradient(dy, dy.size(0), columns, index);
  const Tensor workspace = new_workspace(dy, kernels::fp8_workspace(columns));
  kernels::cast_to_fp8(output_of(result.values, scales, Fp8Type::E5m2),
                       f32(result.bias),
                       bf16(dy),
                       workspace.data_ptr(),
                       dy.size(0),
                       columns,
                       stream());
  return result;
}

Fp8Gradient join_gradients(const Tensor& query,
                           const Tensor& key,
                           const Tensor& value,
                           const Fp8Scales& scales,
                           int64_t index) {
  const int64_t columns = 3 * query.size(1);
  Fp8Gradient result = new_gradient(query, query.size(0), columns, index);
  const Tensor workspace = new_workspace(query, kernels::fp8_workspace(columns));
  kernels::join_to_fp8(output_of(result.values, scales, Fp8Type::E5m2),
                       f32(result.bias),
                       bf16(query),
                       bf16(key),
                       bf16(value),
                       workspace.data_ptr(),
                       query.size(0),
                       query.size(1),
                       stream());
  return result;
}

Fp8Norm fp8_norm_forward(const Tensor& input,
                         const Tensor& weight,
                         const Tensor& bias,
                         const Fp8Scales& scales,
                         int64_t index) {
  const int64_t rows = input.size(0);
  const int64_t columns = input.size(1);
  Fp8Norm result{
      new_pair(input, rows, columns, index), new_f32(input, {rows}), new_f32(input, {rows})};
  kernels::layer_norm_forward({.fp8 = fp8(result.output.plain),
                               .scale = scales.scale(index),
                               .history = scales.history(index),
                               .mean = f32(result.mean),
                               .rstd = f32(result.rstd),
                               .input = bf16(input),
                               .weight = f32(weight),
                               .bias = f32(bias),
                               .rows = rows,
                               .columns = columns,
                               .epsilon = kEpsilon},
                              stream());
  // The kernel of layer norm has whole rows in a warp and cannot write columns; a copy of one byte
  // per element is cheap next to it.
  kernels::transpose_fp8(
      fp8(result.output.transposed), fp8(result.output.plain), rows, columns, stream());
  return result;
}

Fp8Tensor fp8_gelu(const Tensor& product,
                   const Tensor& bias,
                   const Fp8Scales& scales,
                   int64_t index) {
  Fp8Tensor result = new_pair(product, product.size(0), product.size(1), index);
  kernels::gelu_to_fp8(output_of(result, scales, Fp8Type::E4m3),
                       bf16(product),
                       f32(bias),
                       product.size(0),
                       product.size(1),
                       stream());
  return result;
}

Fp8Gradient fp8_gelu_backward(const Tensor& dy,
                              const Tensor& product,
                              const Tensor& bias,
                              const Fp8Scales& scales,
                              int64_t index) {
  const int64_t columns = dy.size(1);
  Fp8Gradient result = new_gradient(dy, dy.size(0), columns, index);
  const Tensor workspace = new_workspace(dy, kernels::fp8_workspace(columns));
  kernels::gelu_backward_to_fp8(output_of(result.values, scales, Fp8Type::E5m2),
                                f32(result.bias),
                                bf16(dy),
                                bf16(product),
                                f32(bias),
                                workspace.data_ptr(),
                                dy.size(0),
                                columns,
                                stream());
  return result;
}

Tensor fp8_linear(kernels::Matmul& matmul,
                  const Fp8Scales& scales,
                  const Fp8Tensor& input,
                  const Fp8Tensor& weight,
                  const Tensor& bias,
                  const Tensor& addend) {
  const int64_t rows = input.plain.size(0);
  const int64_t in = input.plain.size(1);
  const int64_t out = weight.plain.size(1);
  Tensor output = new_bf16(input.plain, {rows, out});
  matmul.run({.output = output.data_ptr(),
              .left = input.plain.data_ptr(),
              .right = weight.transposed.data_ptr(),
              .left_type = OperandType::E4m3,
              .right_type = OperandType::E4m3,
              .left_inverse = scales.inverse(input.index),
              .right_inverse = scales.inverse(weight.index),
              .fast = true,
              .right_transposed = true,
              .m = rows,
              .n = out,
              .k = in,
              .epilogue = bias.defined() ? kernels::Epilogue::Bias : kernels::Epilogue::None,
              .bias = bias.defined() ? bf16(bias) : nullptr,
              .addend = addend.defined() ? bf16(addend) : nullptr},
             stream());
  return output;
}

Tensor fp8_input_gradient(kernels::Matmul& matmul,
                          const Fp8Scales& scales,
                          const Fp8Tensor& dy,
                          const Fp8Tensor& weight) {
  const int64_t rows = dy.plain.size(0);
  Tensor output = new_bf16(dy.plain, {rows, weight.plain.size(0)});
  matmul.run({.output = output.data_ptr(),
              .left = dy.plain.data_ptr(),
              .right = weight.plain.data_ptr(),
              .left_type = OperandType::E5m2,
              .right_type = OperandType::E4m3,
              .left_inverse = scales.inverse(dy.index),
              .right_inverse = scales.inverse(weight.index),
              .fast = true,
              .right_transposed = true,
              .m = rows,
              .n = weight.plain.size(0),
              .k = weight.plain.size(1)},
             stream());
  return output;
}

// Not `fast` (see MatmulCall): the sum goes over all tokens. k includes the zero rows that pad the
// transposed operands to fp8_stride().
Tensor fp8_weight_gradient(kernels::Matmul& matmul,
                           const Fp8Scales& scales,
                           const Fp8Tensor& input,
                           const Fp8Tensor& dy) {
  const int64_t in = input.transposed.size(0);
  const int64_t out = dy.transposed.size(0);
  Tensor output = new_f32(input.transposed, {in, out});
  matmul.run({.output = output.data_ptr(),
              .float_output = true,
              .left = input.transposed.data_ptr(),
              .right = dy.transposed.data_ptr(),
              .left_type = OperandType::E4m3,
              .right_type = OperandType::E5m2,
              .left_inverse = scales.inverse(input.index),
              .right_inverse = scales.inverse(dy.index),
              .right_transposed = true,
              .m = in,
              .n = out,
              .k = input.transposed.size(1)},
             stream());
  return output;
}

}  // namespace lockstep::models
