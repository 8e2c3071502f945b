// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/batch_norm.h"
#include "kernels/device.cuh"
#include "kernels/launch.h"

// How batch norm's kernels share out their work: a block has 64 channels, a thread eight of them
// and every so-manieth row.
namespace lockstep::kernels {

constexpr int kNormPacks = static_cast<int>(kNormChannels) / kPack;  // of a block, along x
constexpr int kNormRows = 32;  // of a block at a time, along y
constexpr int kNormThreads = kNormPacks * kNormRows;
constexpr int kNormWarps = kNormThreads / kWarp;
constexpr int kMostNormBlocks = 1024;  // of rows, for the same channels
constexpr int kMostNormSums = 3;

// blockIdx.x: which 64 channels; blockIdx.y: which rows.
inline dim3 norm_grid(int64_t rows, int64_t channels, int blocks_per_multiprocessor) {
  const int64_t chunks = channels / kNormChannels;
  const int64_t wanted = divide_up(multiprocessors() * blocks_per_multiprocessor, chunks);
  const int64_t useful = divide_up(rows, 2 * kNormRows);
  int64_t blocks = wanted < useful ? wanted : useful;
  blocks = blocks < kMostNormBlocks ? blocks : kMostNormBlocks;
  return dim3(static_cast<unsigned>(chunks), static_cast<unsigned>(blocks));
}

__device__ __forceinline__ int64_t norm_pack() {
  return static_cast<int64_t>(blockIdx.x) * kNormPacks + threadIdx.x;
}

// The rows of this thread, from the first on or from the last back: what the kernel before touched
// last is still in the cache.
struct NormRows {
  int64_t first;
  int64_t step;
};

__device__ __forceinline__ NormRows norm_rows() {
  return {static_cast<int64_t>(blockIdx.y) * kNormRows + threadIdx.y,
          static_cast<int64_t>(gridDim.y) * kNormRows};
}

// The sums over all rows of `kSums` numbers for each of the eight channels of each thread. True in
// the one block of these channels that comes last, and there `total` [kSums][64] has them.
template <int kSums>
__device__ __forceinline__ bool sum_over_rows(Floats (&sums)[kSums],
                                              double (*total)[kNormChannels],
                                              void* workspace) {
  __shared__ float by_warp[kNormWarps][kSums][kNormChannels];
  __shared__ bool is_last;
  const int thread = static_cast<int>(threadIdx.y * kNormPacks + threadIdx.x);
  const int warp = thread / kWarp;
#pragma unroll
  for (int sum = 0; sum < kSums; ++sum) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      float value = sums[sum].at[i];
      for (int offset = kNormPacks; offset < kWarp; offset *= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
      }
      if (thread % kWarp < kNormPacks) {
        by_warp[warp][sum][threadIdx.x * kPack + i] = value;
      }
    }
  }
  __syncthreads();
  auto* counters = static_cast<unsigned*>(workspace);
  auto* partial = reinterpret_cast<float*>(static_cast<char*>(workspace) + kNormCounters) +
                  static_cast<int64_t>(blockIdx.x) * gridDim.y * (kSums * kNormChannels);
  constexpr int kValues = kSums * static_cast<int>(kNormChannels);
  for (int i = thread; i < kValues; i += kNormThreads) {
    float value = 0;
    for (int each = 0; each < kNormWarps; ++each) {
      value += (&by_warp[each][0][0])[i];
    }
    partial[static_cast<int64_t>(blockIdx.y) * kValues + i] = value;
  }
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    // Counts to the last, and from there back to nought for the next call.
    is_last = atomicInc(&counters[blockIdx.x], gridDim.y - 1) == gridDim.y - 1;
  }
  __syncthreads();
  if (!is_last) {
    return false;
  }
  __threadfence();
  // Four threads for each value, then one.
  constexpr int kParts = kNormThreads / static_cast<int>(kNormChannels);
  __shared__ double by_part[kParts][kNormChannels];
  const int channel = thread % static_cast<int>(kNormChannels);
  const int part = thread / static_cast<int>(kNormChannels);
  for (int sum = 0; sum < kSums; ++sum) {
    double value = 0;
    for (unsigned each = static_cast<unsigned>(part); each < gridDim.y; each += kParts) {
      value +=
          __ldcg(&partial[static_cast<int64_t>(each) * kValues + sum * kNormChannels + channel]);
    }
    by_part[part][channel] = value;
    __syncthreads();
    if (part == 0) {
      value = 0;
      for (int each = 0; each < kParts; ++each) {
        value += by_part[each][channel];
      }
      total[sum][channel] = value;
    }
    __syncthreads();
  }
  return true;
}

}  // namespace lockstep::kernels
