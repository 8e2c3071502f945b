// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <torch/torch.h>
#include <vector>

#include "training/kernels/stream.h"

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): GTEST_SKIP() returns from the test itself
#define LOCKSTEP_NEEDS_GPU()                  \
  if (!torch::cuda::is_available()) {         \
    GTEST_SKIP() << "no GPU on this machine"; \
  }                                           \
  torch::manual_seed(7)

namespace lockstep::kernels {

// bfloat16 has 8 significant bits: rounding to nearest has a relative error of at most 2^-9. Twice
// that leaves room for a float32 error that makes a value round to its neighbour.
constexpr double kBf16Bound = 1.0 / 256;

// In a float32 sum of terms t, each partial sum has a relative error of 2^-24, and a thread adds
// about a hundred terms before the tree reduction, so 1e-5 of sum |t| is an ample bound.
constexpr double kSumBound = 1e-5;

inline Stream stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

inline Bf16* bf16(const torch::Tensor& tensor) {
  return tensor.defined() ? reinterpret_cast<Bf16*>(tensor.data_ptr()) : nullptr;
}

inline float* floats(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

inline int64_t* integers(const torch::Tensor& tensor) {
  return tensor.data_ptr<int64_t>();
}

inline torch::TensorOptions on_gpu(torch::ScalarType type) {
  return torch::TensorOptions().device(torch::kCUDA).dtype(type);
}

inline torch::Tensor random_bf16(std::vector<int64_t> sizes, double spread = 1, double middle = 0) {
  return (torch::randn(sizes, on_gpu(torch::kFloat32)) * spread + middle).to(torch::kBFloat16);
}

inline torch::Tensor random_floats(std::vector<int64_t> sizes) {
  return torch::randn(sizes, on_gpu(torch::kFloat32));
}

// An output filled with NaN, so that elements that are not written are detected.
inline torch::Tensor poison(std::vector<int64_t> sizes, torch::ScalarType type) {
  return torch::full(sizes, std::numeric_limits<double>::quiet_NaN(), on_gpu(type));
}

inline torch::Tensor workspace_of(int64_t bytes) {
  return torch::full({bytes}, 255, on_gpu(torch::kUInt8));
}

// Checks |actual - expected| <= allowed for each element; NaN always fails.
inline void expect_within(const torch::Tensor& actual,
                          const torch::Tensor& expected,
                          const torch::Tensor& allowed) {
  const torch::Tensor error = (actual.to(torch::kFloat64) - expected).abs();
  const torch::Tensor is_far = (error <= allowed).logical_not();
  const auto far = is_far.sum().item<int64_t>();
  if (far == 0) {
    return;
  }
  const torch::Tensor worst = (error - allowed).nan_to_num(1e300).flatten().argmax();
  const auto at = worst.item<int64_t>();
  ADD_FAILURE() << far << " of " << error.numel() << " elements are off; element " << at << " is "
                << actual.to(torch::kFloat64).flatten()[at].item<double>() << ", not "
                << expected.expand_as(error).flatten()[at].item<double>() << " +- "
                << allowed.expand_as(error).flatten()[at].item<double>();
}

inline void expect_close(const torch::Tensor& actual,
                         const torch::Tensor& expected,
                         double relative,
                         double absolute) {
  expect_within(actual, expected, expected.abs() * relative + absolute);
}

// Checks that `sums` is the sum of `terms` over their first dimension, in float32.
inline void expect_sums(const torch::Tensor& sums, const torch::Tensor& terms) {
  const torch::Tensor wide = terms.to(torch::kFloat64);
  expect_within(sums, wide.sum(0), wide.abs().sum(0) * kSumBound + 1e-30);
}

}  // namespace lockstep::kernels
