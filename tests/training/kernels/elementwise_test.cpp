// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/elementwise.h"

#include <utility>

#include "training/kernels/support.h"

namespace lockstep::kernels {
namespace {

const std::vector<std::pair<int64_t, int64_t>> kShapes = {
    {1, 8}, {7, 32}, {33, 256}, {1, 768}, {9001, 768}, {2501, 1600}, {4097, 3072}, {301, 8192}};

std::string name_of(const std::pair<int64_t, int64_t>& shape) {
  return std::to_string(shape.first) + " x " + std::to_string(shape.second);
}

TEST(BiasGeluForward, AgreesWithFloat64) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    const auto [rows, columns] = shape;
    const torch::Tensor input = random_bf16({rows, columns}, 3);
    const torch::Tensor bias = random_floats({columns});
    const torch::Tensor output = poison({rows, columns}, torch::kBFloat16);
    const torch::Tensor before = poison({rows, columns}, torch::kBFloat16);
    bias_gelu_forward(
        bf16(output), bf16(before), bf16(input), floats(bias), rows, columns, stream());
    const torch::Tensor sum = (input.to(torch::kFloat32) + bias).to(torch::kBFloat16);
    EXPECT_TRUE(torch::equal(before, sum));
    // The reference computes 1 + tanh, which has an absolute error of 1e-16.
    expect_close(output, torch::gelu(sum.to(torch::kFloat64), "tanh"), kBf16Bound, 1e-12);

    // In place, and without a bias.
    const torch::Tensor changed = input.clone();
    const torch::Tensor second = poison({rows, columns}, torch::kBFloat16);
    bias_gelu_forward(
        bf16(second), bf16(changed), bf16(changed), floats(bias), rows, columns, stream());
    EXPECT_TRUE(torch::equal(changed, sum));
    EXPECT_TRUE(torch::equal(second, output));
    bias_gelu_forward(bf16(second), nullptr, bf16(input), nullptr, rows, columns, stream());
    expect_close(second, torch::gelu(input.to(torch::kFloat64), "tanh"), kBf16Bound, 1e-12);
  }
}

TEST(BiasGeluForward, HoldsAtTheEnds) {
  LOCKSTEP_NEEDS_GPU();
  const std::vector<float> ends = {-1e30F, -1e6F, -50, -12, 0, 12, 1e6F, 1e30F};
  const torch::Tensor input = torch::tensor(ends).to(torch::kCUDA, torch::kBFloat16).view({1, 8});
  const torch::Tensor output = poison({1, 8}, torch::kBFloat16);
  bias_gelu_forward(bf16(output), nullptr, bf16(input), nullptr, 1, 8, stream());
  expect_close(output, input.to(torch::kFloat64).clamp_min(0), 0, 1e-12);
}

TEST(GeluBackward, AgreesWithFloat64Autograd) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    const auto [rows, columns] = shape;
    const torch::Tensor before = random_bf16({rows, columns}, 3);
    const torch::Tensor slope = random_bf16({rows, columns});
    const torch::Tensor wide = before.to(torch::kFloat64).requires_grad_();
    torch::gelu(wide, "tanh").backward(slope.to(torch::kFloat64));

    const torch::Tensor result = poison({rows, columns}, torch::kBFloat16);
    const torch::Tensor sums = poison({columns}, torch::kFloat32);
    const torch::Tensor workspace = workspace_of(column_sum_workspace(columns));
    gelu_backward(bf16(result),
                  floats(sums),
                  bf16(slope),
                  bf16(before),
                  workspace.data_ptr(),
                  rows,
                  columns,
                  stream());
    // Near the zero of the derivative, the float32 error of 1e-6 remains.
    expect_close(result, wide.grad(), kBf16Bound, 1e-5);
    expect_sums(sums, result);

    // In place, and without sums.
    const torch::Tensor changed = slope.clone();
    const torch::Tensor again = poison({columns}, torch::kFloat32);
    gelu_backward(bf16(changed),
                  floats(again),
                  bf16(changed),
                  bf16(before),
                  workspace.data_ptr(),
                  rows,
                  columns,
                  stream());
    EXPECT_TRUE(torch::equal(changed, result));
    EXPECT_TRUE(torch::equal(again, sums));
    changed.copy_(slope);
    gelu_backward(
        bf16(changed), nullptr, bf16(changed), bf16(before), nullptr, rows, columns, stream());
    EXPECT_TRUE(torch::equal(changed, result));
  }
}

TEST(ColumnSum, AddsUpTheRows) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    const auto [rows, columns] = shape;
    const torch::Tensor matrix = random_bf16({rows, columns}, 1, 0.1);
    const torch::Tensor sums = poison({columns}, torch::kFloat32);
    const torch::Tensor again = poison({columns}, torch::kFloat32);
    const torch::Tensor workspace = workspace_of(column_sum_workspace(columns));
    for (const torch::Tensor& place : {sums, again}) {
      column_sum(floats(place), bf16(matrix), workspace.data_ptr(), rows, columns, stream());
    }
    expect_sums(sums, matrix);
    EXPECT_TRUE(torch::equal(sums, again));
  }
}

TEST(ColumnSum, OfNoRowsIsZero) {
  LOCKSTEP_NEEDS_GPU();
  const torch::Tensor matrix = random_bf16({1, 768});
  const torch::Tensor sums = poison({768}, torch::kFloat32);
  const torch::Tensor workspace = workspace_of(column_sum_workspace(768));
  column_sum(floats(sums), bf16(matrix), workspace.data_ptr(), 0, 768, stream());
  EXPECT_EQ(sums.abs().sum().item<float>(), 0);
}

TEST(JoinColumns, PutsThreeMatricesNextToEachOther) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    const auto [rows, columns] = shape;
    const torch::Tensor first = random_bf16({rows, columns});
    const torch::Tensor second = random_bf16({rows, columns});
    const torch::Tensor third = random_bf16({rows, columns});
    const torch::Tensor expected = torch::cat({first, second, third}, 1);
    const torch::Tensor workspace = workspace_of(column_sum_workspace(3 * columns));
    const torch::Tensor sums = poison({3 * columns}, torch::kFloat32);
    for (float* place : {floats(sums), static_cast<float*>(nullptr)}) {
      const torch::Tensor joined = poison({rows, 3 * columns}, torch::kBFloat16);
      join_columns(bf16(joined),
                   place,
                   bf16(first),
                   bf16(second),
                   bf16(third),
                   workspace.data_ptr(),
                   rows,
                   columns,
                   stream());
      EXPECT_TRUE(torch::equal(joined, expected));
    }
    expect_sums(sums, expected);
  }
}

}  // namespace
}  // namespace lockstep::kernels
