// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/matmul.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cmath>
#include <cuda_runtime_api.h>
#include <string>

#include "lockstep/error.h"
#include "training/kernels/support.h"

namespace lockstep::kernels {
namespace {

struct Shape {
  int64_t m;
  int64_t n;
  int64_t k;
};

const std::vector<Shape> kShapes = {
    {8, 8, 8}, {33, 64, 40}, {1, 768, 768}, {777, 2304, 768}, {1024, 768, 3072}};

std::string name_of(const Shape& shape) {
  return std::to_string(shape.m) + " x " + std::to_string(shape.n) + " x " +
         std::to_string(shape.k);
}

// A product, and the error bound of float32 sums: 1e-5 of the sum of the magnitudes of the terms.
struct Problem {
  torch::Tensor left;
  torch::Tensor right;
  torch::Tensor product;  // float64
  torch::Tensor slack;
  MatmulCall call;
};

Problem make_problem(const Shape& shape, bool left_transposed, bool right_transposed) {
  const double spread = 1 / std::sqrt(static_cast<double>(shape.k));
  const torch::Tensor left =
      left_transposed ? random_bf16({shape.k, shape.m}) : random_bf16({shape.m, shape.k});
  const torch::Tensor right = right_transposed ? random_bf16({shape.n, shape.k}, spread)
                                               : random_bf16({shape.k, shape.n}, spread);
  const torch::Tensor a = (left_transposed ? left.t() : left).to(torch::kFloat64);
  const torch::Tensor b = (right_transposed ? right.t() : right).to(torch::kFloat64);
  Problem problem{left, right, a.mm(b), a.abs().mm(b.abs()) * kSumBound, {}};
  problem.call = {.left = bf16(problem.left),
                  .right = bf16(problem.right),
                  .left_transposed = left_transposed,
                  .right_transposed = right_transposed,
                  .m = shape.m,
                  .n = shape.n,
                  .k = shape.k};
  return problem;
}

TEST(Matmul, MultipliesEitherWayRound) {
  LOCKSTEP_NEEDS_GPU();
  Matmul matmul;
  for (const Shape& shape : kShapes) {
    for (const bool left : {false, true}) {
      for (const bool right : {false, true}) {
        if (left && shape.m % 8 != 0) {
          continue;  // m is then the row length, which must be a multiple of 8
        }
        SCOPED_TRACE(name_of(shape) + (left ? ", left" : "") + (right ? ", right" : ""));
        Problem problem = make_problem(shape, left, right);
        const torch::Tensor narrow = poison({shape.m, shape.n}, torch::kBFloat16);
        problem.call.output = narrow.data_ptr();
        matmul.run(problem.call, stream());
        expect_within(narrow, problem.product, problem.product.abs() * kBf16Bound + problem.slack);

        const torch::Tensor wide = poison({shape.m, shape.n}, torch::kFloat32);
        problem.call.output = wide.data_ptr();
        problem.call.float_output = true;
        matmul.run(problem.call, stream());
        expect_within(wide, problem.product, problem.slack);
        const torch::Tensor first = wide.clone();
        matmul.run(problem.call, stream());
        EXPECT_TRUE(torch::equal(first, wide));

        // The timing of algorithms must not add the product more than once.
        for (int time = 2; time <= 3; ++time) {
          problem.call.accumulate = true;
          matmul.run(problem.call, stream());
          expect_within(wide, problem.product * time, problem.slack * time);
        }
      }
    }
  }
}

TEST(Matmul, AddsABias) {
  LOCKSTEP_NEEDS_GPU();
  Matmul matmul;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    Problem problem = make_problem(shape, false, true);
    const torch::Tensor bias = random_bf16({shape.n});
    const torch::Tensor output = poison({shape.m, shape.n}, torch::kBFloat16);
    problem.call.output = output.data_ptr();
    problem.call.epilogue = Epilogue::Bias;
    problem.call.bias = bf16(bias);
    matmul.run(problem.call, stream());
    const torch::Tensor expected = problem.product + bias.to(torch::kFloat64);
    expect_within(output, expected, expected.abs() * kBf16Bound + problem.slack);

    // Another bias, with the algorithm that was chosen before.
    const torch::Tensor other = random_bf16({shape.n});
    problem.call.bias = bf16(other);
    matmul.run(problem.call, stream());
    const torch::Tensor expected_other = problem.product + other.to(torch::kFloat64);
    expect_within(output, expected_other, expected_other.abs() * kBf16Bound + problem.slack);
  }
}

// The epilogue of cuBLASLt applies gelu to the sum before rounding, with a tanh of 16-bit
// precision. The fallback kernel applies it to the rounded sum. Both are within the rounding of the
// sum.
TEST(Matmul, AppliesGelu) {
  LOCKSTEP_NEEDS_GPU();
  Matmul matmul;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    Problem problem = make_problem(shape, false, true);
    const torch::Tensor bias = random_bf16({shape.n});
    const torch::Tensor output = poison({shape.m, shape.n}, torch::kBFloat16);
    const torch::Tensor aux = poison({shape.m, shape.n}, torch::kBFloat16);
    problem.call.output = output.data_ptr();
    problem.call.epilogue = Epilogue::BiasGelu;
    problem.call.bias = bf16(bias);
    problem.call.aux = bf16(aux);
    matmul.run(problem.call, stream());
    const torch::Tensor before = problem.product + bias.to(torch::kFloat64);
    expect_within(aux, before, before.abs() * kBf16Bound + problem.slack);
    const torch::Tensor expected = torch::gelu(before, "tanh");
    const torch::Tensor allowed = (expected.abs() + before.abs()) * kBf16Bound + problem.slack * 2;
    expect_within(output, expected, allowed);
  }
}

TEST(Matmul, AppliesTheDerivativeOfGelu) {
  LOCKSTEP_NEEDS_GPU();
  Matmul matmul;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    Problem problem = make_problem(shape, false, false);
    const torch::Tensor aux = random_bf16({shape.m, shape.n}, 2);
    const torch::Tensor before = aux.clone();
    const torch::Tensor output = poison({shape.m, shape.n}, torch::kBFloat16);
    problem.call.output = output.data_ptr();
    problem.call.epilogue = Epilogue::GeluBackward;
    problem.call.aux = bf16(aux);
    matmul.run(problem.call, stream());
    const torch::Tensor wide = aux.to(torch::kFloat64).requires_grad_();
    torch::gelu(wide, "tanh").backward(problem.product);
    const torch::Tensor expected = wide.grad();
    const torch::Tensor size = expected.abs() + problem.product.abs();
    expect_within(output, expected, size * kBf16Bound + problem.slack * 2);
    EXPECT_TRUE(torch::equal(aux, before));
  }
}

TEST(Matmul, WorksWithOperandsThatAreNotWellAligned) {
  LOCKSTEP_NEEDS_GPU();
  Matmul matmul;
  const Shape shape{64, 128, 64};
  Problem problem = make_problem(shape, false, false);
  const torch::Tensor memory = torch::zeros({shape.m * shape.k + 8}, on_gpu(torch::kBFloat16));
  const torch::Tensor moved = memory.narrow(0, 8, shape.m * shape.k);
  moved.copy_(problem.left.flatten());
  const torch::Tensor output = poison({shape.m, shape.n}, torch::kBFloat16);
  problem.call.left = bf16(moved);
  problem.call.output = output.data_ptr();
  matmul.run(problem.call, stream());
  expect_within(output, problem.product, problem.product.abs() * kBf16Bound + problem.slack);
}

TEST(Matmul, MayBeFirstSeenInACapture) {
  LOCKSTEP_NEEDS_GPU();
  Matmul matmul;
  Problem problem = make_problem({256, 768, 768}, false, true);
  const torch::Tensor output = poison({256, 768}, torch::kBFloat16);
  problem.call.output = output.data_ptr();
  torch::cuda::synchronize();
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(side);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  matmul.run(problem.call, stream());
  ASSERT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
  EXPECT_TRUE(output.isnan().all().item<bool>());
  cudaGraphExec_t ready = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(ready, stream()), cudaSuccess);
  const torch::Tensor allowed = problem.product.abs() * kBf16Bound + problem.slack;
  expect_within(output, problem.product, allowed);
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  // Timing is now allowed and must not change the result.
  matmul.run(problem.call, stream());
  expect_within(output, problem.product, allowed);
}

TEST(Matmul, AddsToFloatsOnly) {
  LOCKSTEP_NEEDS_GPU();
  Matmul matmul;
  EXPECT_THROW(matmul.run({.accumulate = true, .m = 8, .n = 8, .k = 8}, stream()), Error);
}

}  // namespace
}  // namespace lockstep::kernels
