// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/column_sums.h"
#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"

namespace lockstep::kernels {
namespace {

constexpr int kSlices = 32;  // slices of the partials; one warp adds up each of them

// A block processes 32 adjacent columns, whose partials are divided among 32 warps: slice s is the
// sum of partials s, s + 32, ... Then one warp adds up the slices. Both orders of additions depend
// only on `count`.
__global__ __launch_bounds__(kWarp* kSlices) void add_partials_kernel(ColumnSums sums,
                                                                      const float* partials,
                                                                      int64_t count,
                                                                      int64_t width) {
  __shared__ float by_slice[kSlices][kWarp];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  float sum = 0;
  if (column < width) {
#pragma unroll 8
    for (int64_t i = threadIdx.y; i < count; i += kSlices) {
      sum += partials[i * width + column];
    }
  }
  by_slice[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) {
    return;
  }
  float total = 0;
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    total += by_slice[slice][threadIdx.x];
  }
  // A row of partials has up to three parts next to each other, each of sums.columns columns.
  const int64_t part = column / sums.columns;
  float* place = part == 0 ? sums.parts[0] : part == 1 ? sums.parts[1] : sums.parts[2];
  if (place != nullptr) {
    place[column - part * sums.columns] = total;
  }
}

}  // namespace

void add_partials(
    const ColumnSums& sums, const float* partials, int64_t count, int64_t width, Stream stream) {
  const auto blocks = static_cast<unsigned>(divide_up(width, kWarp));
  add_partials_kernel<<<blocks, dim3(kWarp, kSlices), 0, stream>>>(sums, partials, count, width);
  check_launch("add_partials");
}

}  // namespace lockstep::kernels
