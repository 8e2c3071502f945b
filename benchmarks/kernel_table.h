// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <functional>
#include <string>
#include <torch/torch.h>
#include <vector>

#include "training/kernels/stream.h"

// Timing of kernels, and the table of results.
namespace lockstep::kernels {

inline Stream stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

inline torch::TensorOptions on_gpu(torch::ScalarType type) {
  return torch::TensorOptions().device(torch::kCUDA).dtype(type);
}

inline torch::Tensor random_bf16(std::vector<int64_t> sizes) {
  return torch::randn(sizes, on_gpu(torch::kBFloat16));
}

inline torch::Tensor random_floats(std::vector<int64_t> sizes) {
  return torch::randn(sizes, on_gpu(torch::kFloat32));
}

inline torch::Tensor workspace_of(int64_t bytes) {
  return torch::empty({bytes}, on_gpu(torch::kUInt8));
}

inline Bf16* bf16(const torch::Tensor& tensor) {
  return reinterpret_cast<Bf16*>(tensor.data_ptr());
}

inline float* floats(const torch::Tensor& tensor) {
  return tensor.data_ptr<float>();
}

// Returns the microseconds of a call: the median over several bursts of calls.
inline double time_of(const std::function<void()>& call) {
  constexpr int kBursts = 7;
  constexpr int kCalls = 10;
  for (int i = 0; i < 3; ++i) {
    call();
  }
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  cudaEventCreate(&start);
  cudaEventCreate(&end);
  std::vector<float> taken;
  for (int burst = 0; burst < kBursts; ++burst) {
    cudaEventRecord(start, stream());
    for (int i = 0; i < kCalls; ++i) {
      call();
    }
    cudaEventRecord(end, stream());
    cudaEventSynchronize(end);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, start, end);
    taken.push_back(milliseconds);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  std::sort(taken.begin(), taken.end());
  return 1000.0 * static_cast<double>(taken[kBursts / 2]) / kCalls;
}

class Table {
 public:
  Table() {
    const torch::Tensor from = torch::empty({int64_t{1} << 30}, on_gpu(torch::kUInt8));
    const torch::Tensor to = torch::empty_like(from);
    const double taken = time_of([&] {
      cudaMemcpyAsync(to.data_ptr(),
                      from.data_ptr(),
                      static_cast<size_t>(from.numel()),
                      cudaMemcpyDeviceToDevice,
                      stream());
    });
    copy_rate_ = 2.0 * static_cast<double>(from.numel()) / taken * 1e-6;
    std::printf("%-44s %10s %10s %8s %8s\n", "kernel", "us", "MB", "TB/s", "of copy");
    std::printf(
        "%-44s %10.1f %10.1f %8.2f %8s\n", "device copy", taken, 2147.5, copy_rate_, "1.00");
  }

  // `bytes` is the minimum that must be read and written.
  void add(const char* name, double bytes, const std::function<void()>& call) const {
    const double taken = time_of(call);
    const double rate = bytes / taken * 1e-6;
    std::printf(
        "%-44s %10.1f %10.1f %8.2f %8.2f\n", name, taken, bytes * 1e-6, rate, rate / copy_rate_);
    std::fflush(stdout);
  }

 private:
  double copy_rate_ = 0;  // TB/s, total of reads and writes
};

// Prints one line of the table of matrix products: output [m, n] = left [m, k] x right [k, n],
// which takes `taken` microseconds.
inline void print_product(const std::string& name, int64_t m, int64_t n, int64_t k, double taken) {
  const double work =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const std::string shape = std::to_string(m) + ", " + std::to_string(n) + ", " + std::to_string(k);
  std::printf("%-44s %24s %10.1f %8.0f\n", name.c_str(), shape.c_str(), taken, work / taken * 1e-6);
  std::fflush(stdout);
}

// Measures the kernels of ResNet-50. kernels_bench.cpp measures the others.
void bench_resnet(const Table& table);

// Measure the kernels and the matrix products of GPT-2 in fp8.
void bench_fp8(const Table& table);
void bench_fp8_products();

}  // namespace lockstep::kernels
