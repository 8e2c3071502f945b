// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/layer_norm.h"

#include <utility>

#include "lockstep/error.h"
#include "training/kernels/support.h"

namespace lockstep::kernels {
namespace {

constexpr double kEpsilon = 1e-5;

// Numbers of rows: fewer than one block processes, odd numbers, and several rows per warp.
const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 8},
                                                          {7, 32},
                                                          {33, 256},
                                                          {257, 512},
                                                          {1, 768},
                                                          {10007, 768},
                                                          {515, 1024},
                                                          {513, 1160},
                                                          {2501, 1600},
                                                          {301, 2048},
                                                          {1031, 3072},
                                                          {33, 4104},
                                                          {301, 8192}};

struct Forward {
  torch::Tensor output;
  torch::Tensor sum;
  torch::Tensor mean;
  torch::Tensor rstd;
};

Forward forward(const torch::Tensor& input,
                const torch::Tensor& branch,
                const torch::Tensor& weight,
                const torch::Tensor& bias,
                bool in_place = false) {
  const int64_t rows = input.size(0);
  const int64_t columns = input.size(1);
  Forward result{poison({rows, columns}, torch::kBFloat16),
                 in_place ? input : poison({rows, columns}, torch::kBFloat16),
                 poison({rows}, torch::kFloat32),
                 poison({rows}, torch::kFloat32)};
  layer_norm_forward({.output = bf16(result.output),
                      .sum = branch.defined() ? bf16(result.sum) : nullptr,
                      .mean = floats(result.mean),
                      .rstd = floats(result.rstd),
                      .input = bf16(input),
                      .branch = bf16(branch),
                      .weight = floats(weight),
                      .bias = floats(bias),
                      .rows = rows,
                      .columns = columns,
                      .epsilon = static_cast<float>(kEpsilon)},
                     stream());
  return result;
}

void expect_normalised(const Forward& result,
                       const torch::Tensor& normalised,
                       const torch::Tensor& weight,
                       const torch::Tensor& bias) {
  const torch::Tensor wide = normalised.to(torch::kFloat64);
  const torch::Tensor expected = torch::layer_norm(
      wide, {wide.size(1)}, weight.to(torch::kFloat64), bias.to(torch::kFloat64), kEpsilon);
  // The absolute bound is the float32 error if bias and weighted value cancel.
  expect_close(result.output, expected, kBf16Bound, 2e-5);
  const torch::Tensor mean = wide.mean(1);
  expect_close(result.mean, mean, 1e-6, 1e-6);
  const torch::Tensor variance = (wide - mean.unsqueeze(1)).square().mean(1);
  expect_close(result.rstd, (variance + kEpsilon).rsqrt(), 1e-5, 0);
}

TEST(LayerNormForward, IsTheNormalisedRowTimesWeightPlusBias) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& [rows, columns] : kShapes) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
    const torch::Tensor input = random_bf16({rows, columns}, 2, 0.5);
    const torch::Tensor weight = random_floats({columns});
    const torch::Tensor bias = random_floats({columns});
    expect_normalised(forward(input, {}, weight, bias), input, weight, bias);
  }
}

TEST(LayerNormForward, AddsTheBranchAndKeepsTheSum) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& [rows, columns] : kShapes) {
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) +
                   (in_place ? ", in place" : ""));
      const torch::Tensor input = random_bf16({rows, columns}, 2, 0.5);
      const torch::Tensor branch = random_bf16({rows, columns});
      const torch::Tensor weight = random_floats({columns});
      const torch::Tensor bias = random_floats({columns});
      const torch::Tensor expected_sum = input + branch;
      const Forward result = forward(input, branch, weight, bias, in_place);
      EXPECT_TRUE(torch::equal(result.sum, expected_sum));
      expect_normalised(result, expected_sum, weight, bias);
    }
  }
}

TEST(LayerNormForward, DoesNotLoseALargeMean) {
  LOCKSTEP_NEEDS_GPU();
  // E[x^2] - E[x]^2 would consist of rounding errors here.
  const torch::Tensor input = random_bf16({100, 768}, 4, 1000);
  const torch::Tensor weight = torch::ones({768}, on_gpu(torch::kFloat32));
  const torch::Tensor bias = torch::zeros({768}, on_gpu(torch::kFloat32));
  const Forward result = forward(input, {}, weight, bias);
  const torch::Tensor expected =
      torch::layer_norm(input.to(torch::kFloat64), {768}, {}, {}, kEpsilon);
  // The error of the mean is about 1e-4, a few float32 units at 1000.
  expect_close(result.output, expected, kBf16Bound, 1e-3);
}

struct Backward {
  torch::Tensor input_gradient;
  torch::Tensor weight_gradient;
  torch::Tensor bias_gradient;
  torch::Tensor column_sum;
};

Backward backward(const Forward& before,
                  const torch::Tensor& input,
                  const torch::Tensor& output_gradient,
                  const torch::Tensor& residual,
                  const torch::Tensor& weight,
                  bool with_column_sum,
                  bool in_place = false) {
  const int64_t rows = input.size(0);
  const int64_t columns = input.size(1);
  Backward result{in_place ? residual : poison({rows, columns}, torch::kBFloat16),
                  poison({columns}, torch::kFloat32),
                  poison({columns}, torch::kFloat32),
                  with_column_sum ? poison({columns}, torch::kFloat32) : torch::Tensor()};
  const torch::Tensor workspace = workspace_of(layer_norm_workspace(columns));
  layer_norm_backward({.input_gradient = bf16(result.input_gradient),
                       .weight_gradient = floats(result.weight_gradient),
                       .bias_gradient = floats(result.bias_gradient),
                       .column_sum = floats(result.column_sum),
                       .output_gradient = bf16(output_gradient),
                       .residual = bf16(residual),
                       .input = bf16(input),
                       .mean = floats(before.mean),
                       .rstd = floats(before.rstd),
                       .weight = floats(weight),
                       .workspace = workspace.data_ptr(),
                       .rows = rows,
                       .columns = columns},
                      stream());
  return result;
}

void expect_gradients(const Backward& result,
                      const torch::Tensor& input,
                      const torch::Tensor& output_gradient,
                      const torch::Tensor& residual,
                      const torch::Tensor& weight) {
  const torch::Tensor wide = input.to(torch::kFloat64).requires_grad_();
  const torch::Tensor wide_weight = weight.to(torch::kFloat64).requires_grad_();
  const torch::Tensor wide_bias = torch::zeros_like(wide_weight).requires_grad_();
  const torch::Tensor slope = output_gradient.to(torch::kFloat64);
  torch::layer_norm(wide, {wide.size(1)}, wide_weight, wide_bias, kEpsilon).backward(slope);
  torch::Tensor expected = wide.grad();
  if (residual.defined()) {
    expected = expected + residual.to(torch::kFloat64);
  }
  expect_close(result.input_gradient, expected, kBf16Bound, 2e-5);

  const torch::Tensor plain = torch::layer_norm(wide.detach(), {wide.size(1)}, {}, {}, kEpsilon);
  const torch::Tensor terms = (slope * plain).abs().sum(0);
  expect_within(result.weight_gradient, wide_weight.grad(), terms * kSumBound + 1e-6);
  expect_sums(result.bias_gradient, output_gradient);
  if (result.column_sum.defined()) {
    expect_sums(result.column_sum, result.input_gradient);
  }
}

TEST(LayerNormBackward, AgreesWithFloat64Autograd) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& [rows, columns] : kShapes) {
    for (const bool with_residual : {false, true}) {
      for (const bool with_column_sum : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) +
                     (with_residual ? ", residual" : "") + (with_column_sum ? ", sum" : ""));
        const torch::Tensor input = random_bf16({rows, columns}, 2, 0.5);
        const torch::Tensor slope = random_bf16({rows, columns});
        const torch::Tensor residual =
            with_residual ? random_bf16({rows, columns}) : torch::Tensor();
        const torch::Tensor weight = random_floats({columns});
        const Forward before = forward(input, {}, weight, weight);
        const Backward result = backward(before, input, slope, residual, weight, with_column_sum);
        expect_gradients(result, input, slope, residual, weight);
        const Backward again = backward(before, input, slope, residual, weight, with_column_sum);
        EXPECT_TRUE(torch::equal(result.input_gradient, again.input_gradient));
        EXPECT_TRUE(torch::equal(result.weight_gradient, again.weight_gradient));
        EXPECT_TRUE(torch::equal(result.bias_gradient, again.bias_gradient));
      }
    }
  }
}

TEST(LayerNormBackward, MayAddToTheResidualInPlace) {
  LOCKSTEP_NEEDS_GPU();
  for (const int64_t columns : {768, 1600}) {
    const torch::Tensor input = random_bf16({5001, columns});
    const torch::Tensor slope = random_bf16({5001, columns});
    const torch::Tensor residual = random_bf16({5001, columns});
    const torch::Tensor weight = random_floats({columns});
    const Forward before = forward(input, {}, weight, weight);
    const Backward apart = backward(before, input, slope, residual, weight, true);
    const Backward result = backward(before, input, slope, residual, weight, true, true);
    EXPECT_TRUE(torch::equal(result.input_gradient, apart.input_gradient));
    EXPECT_TRUE(torch::equal(result.column_sum, apart.column_sum));
  }
}

TEST(LayerNormForward, RefusesColumnsThat8DoesNotDivide) {
  LOCKSTEP_NEEDS_GPU();
  EXPECT_THROW(layer_norm_forward({.rows = 1, .columns = 12}, stream()), Error);
}

}  // namespace
}  // namespace lockstep::kernels
