// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cuda_bf16.h>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

struct Bf16 {
  uint16_t bits;
};

constexpr int kWarp = 32;
constexpr int kPack = 8;  // bfloat16 elements in the 16 bytes that a thread loads or stores at once

// The elements of a pack, widened.
struct Floats {
  float at[kPack];
};

__device__ __forceinline__ uint4 load_pack(const Bf16* from, int64_t pack) {
  return reinterpret_cast<const uint4*>(from)[pack];
}

__device__ __forceinline__ void store_pack(Bf16* to, int64_t pack, uint4 bits) {
  reinterpret_cast<uint4*>(to)[pack] = bits;
}

__device__ __forceinline__ Floats load_floats(const float* from, int64_t pack) {
  const float4* place = reinterpret_cast<const float4*>(from) + 2 * pack;
  const float4 low = place[0];
  const float4 high = place[1];
  return {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
}

__device__ __forceinline__ void store_floats(float* to, int64_t pack, const Floats& values) {
  float4* place = reinterpret_cast<float4*>(to) + 2 * pack;
  place[0] = make_float4(values.at[0], values.at[1], values.at[2], values.at[3]);
  place[1] = make_float4(values.at[4], values.at[5], values.at[6], values.at[7]);
}

// A bfloat16 is the upper half of a float32.
__device__ __forceinline__ float widen_low(uint32_t word) {
  return __uint_as_float(word << 16);
}

__device__ __forceinline__ float widen_high(uint32_t word) {
  return __uint_as_float(word & 0xFFFF0000U);
}

__device__ __forceinline__ float widen(Bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

__device__ __forceinline__ Floats widen(uint4 bits) {
  return {widen_low(bits.x),
          widen_high(bits.x),
          widen_low(bits.y),
          widen_high(bits.y),
          widen_low(bits.z),
          widen_high(bits.z),
          widen_low(bits.w),
          widen_high(bits.w)};
}

__device__ __forceinline__ uint32_t narrow(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

__device__ __forceinline__ Bf16 narrow(float value) {
  return {static_cast<uint16_t>(narrow(value, 0.0F))};
}

__device__ __forceinline__ uint4 narrow(const Floats& values) {
  return make_uint4(narrow(values.at[0], values.at[1]),
                    narrow(values.at[2], values.at[3]),
                    narrow(values.at[4], values.at[5]),
                    narrow(values.at[6], values.at[7]));
}

__device__ __forceinline__ void add_to(Floats& sum, const Floats& values) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    sum.at[i] += values.at[i];
  }
}

// The sum over a warp, in every lane, with the same bits in each: the tree is symmetric.
template <typename Number>
__device__ __forceinline__ Number warp_sum(Number value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  }
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, offset));
  }
  return value;
}

// The sum over a block of whole warps, in every thread. `by_warp` has kWarp elements. The caller
// must synchronize before it uses them again.
template <typename Number>
__device__ __forceinline__ Number block_sum(Number value, Number* by_warp) {
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int warps = static_cast<int>(blockDim.x * blockDim.y) / kWarp;
  value = warp_sum(value);
  if (thread % kWarp == 0) {
    by_warp[thread / kWarp] = value;
  }
  __syncthreads();
  return warp_sum(thread % kWarp < warps ? by_warp[thread % kWarp] : Number(0));
}

}  // namespace lockstep::kernels
