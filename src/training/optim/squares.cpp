// SPDX-License-Identifier: Apache-2.0
#include "training/optim/squares.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <array>
#include <torch/types.h>
#include <torch/utils.h>

namespace lockstep::optim {
namespace {

constexpr int64_t kMinShare = 1 << 15;  // minimum elements per thread

// The compiler vectorizes the inner loop: the sums of different lanes are independent.
template <typename T>
double add_up(const T* __restrict values, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = 16;
  std::array<double, kLanes> sums{};
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      sums[static_cast<size_t>(lane)] += value * value;
    }
  }
  for (; i < end; ++i) {
    sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  double sum = 0;
  for (const double each : sums) {
    sum += each;
  }
  return sum;
}

template <typename T>
double on_cpu(const torch::Tensor& values) {
  const T* data = values.data_ptr<T>();
  // The division into parts depends on the number of threads, and with it the last digits of the
  // sum.
  return at::parallel_reduce(
      0,
      values.numel(),
      kMinShare,
      0.0,
      [data](int64_t begin, int64_t end, double) { return add_up(data, begin, end); },
      [](double one, double other) { return one + other; });
}

}  // namespace

double sum_of_squares(const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor flat = values.contiguous().view(-1);
  if (flat.is_cpu() && flat.scalar_type() == torch::kFloat32) {
    return on_cpu<float>(flat);
  }
  if (flat.is_cpu() && flat.scalar_type() == torch::kFloat64) {
    return on_cpu<double>(flat);
  }
  return sum_of_squares_tensor(flat).item<double>();
}

torch::Tensor sum_of_squares_tensor(const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor flat = values.contiguous().view(-1);
  // In pieces: a float64 copy of the whole tensor would need twice its memory.
  constexpr int64_t kAtOnce = int64_t{1} << 24;
  torch::Tensor sum = torch::zeros({}, flat.options().dtype(torch::kFloat64));
  for (int64_t begin = 0; begin < flat.numel(); begin += kAtOnce) {
    const int64_t count = std::min(kAtOnce, flat.numel() - begin);
    sum += flat.narrow(0, begin, count).to(torch::kFloat64).square().sum();
  }
  return sum;
}

}  // namespace lockstep::optim
