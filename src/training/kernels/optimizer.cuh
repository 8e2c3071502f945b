// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/device.cuh"
#include "training/kernels/optimizer.h"

// Shared by the kernels of all optimizers. One launch processes all tensors of a table. Elements
// are numbered consecutively across tensors, and block b processes elements [b, b + 1) * kChunk of
// this numbering, so that large and small tensors use the GPU equally well:
//
//   tensors   |--- 0 ---|-- 1 --|-------------- 2 --------------|
//   blocks    |------ 0 ------|------ 1 ------|------ 2 ------|
namespace lockstep::kernels {

constexpr int kThreads = 256;
constexpr int kWide = 4;          // elements that a thread loads or stores at once
constexpr int64_t kChunk = 8192;  // elements that a block updates

// The tensor that holds element `start` of the table, found by all threads of the block together:
// the number of tensors that begin at or before it, minus one. Must be called by all threads.
__device__ __forceinline__ int find_tensor(const UpdatedTensor* tensors, int count, int64_t start) {
  int before = 0;  // tensors that begin at or before it
  for (int base = 0; base < count; base += kThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    before += __syncthreads_count(i < count && tensors[i].begin <= start ? 1 : 0);
  }
  return before - 1;
}

// Calls work(tensor, from, to) for the parts of tensors that are elements [start, stop) of the
// table.
template <typename Work>
__device__ __forceinline__ void for_each_part(
    const UpdatedTensor* tensors, int count, int64_t start, int64_t stop, const Work& work) {
  for (int i = find_tensor(tensors, count, start); i < count; ++i) {
    const UpdatedTensor tensor = tensors[i];
    if (tensor.begin >= stop) {
      return;
    }
    const int64_t from = start > tensor.begin ? start - tensor.begin : 0;
    const int64_t left = stop - tensor.begin;
    const int64_t to = left < tensor.count ? left : tensor.count;
    if (from < to) {
      work(tensor, from, to);
    }
  }
}

__device__ __forceinline__ bool is_aligned(const void* place, uintptr_t by) {
  return reinterpret_cast<uintptr_t>(place) % by == 0;
}

__device__ __forceinline__ float4 load_wide(const float* from, int64_t at) {
  return *reinterpret_cast<const float4*>(from + at);
}

__device__ __forceinline__ void store_wide(float* to, int64_t at, const float4& value) {
  *reinterpret_cast<float4*>(to + at) = value;
}

// The factor that limits the norm of the gradients.
__device__ __forceinline__ float clip_factor(const Clip& clip) {
  if (clip.squares == nullptr || !(clip.max_norm > 0)) {
    return 1.0F;
  }
  const auto norm = static_cast<float>(sqrt(*clip.squares));
  const float factor = clip.max_norm / (norm + 1e-6F);
  return factor >= 1.0F ? 1.0F : factor;  // NaN stays NaN, as in torch
}

// Whether the step is skipped. All blocks read the same sum, so either all update or none does.
__device__ __forceinline__ bool skips_step(const Clip& clip) {
  return clip.skip_if_not_finite && clip.squares != nullptr && !isfinite(*clip.squares);
}

}  // namespace lockstep::kernels
