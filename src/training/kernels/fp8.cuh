// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp8.h>

#include "training/kernels/device.cuh"
#include "training/kernels/fp8.h"

namespace lockstep::kernels {

struct Fp8 {
  uint8_t bits;
};

// Rounds to nearest. Values outside the range saturate at the largest finite value; NaN stays NaN.
template <Fp8Type kType>
__device__ __forceinline__ uint32_t
narrow_to_fp8(float first, float second, float third, float fourth) {
  constexpr auto kKind = kType == Fp8Type::E4m3 ? __NV_E4M3 : __NV_E5M2;
  const auto low = static_cast<uint32_t>(
      __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, kKind));
  const auto high = static_cast<uint32_t>(
      __nv_cvt_float2_to_fp8x2(make_float2(third, fourth), __NV_SATFINITE, kKind));
  return low | (high << 16);
}

// Multiplies eight elements by the scale and rounds them.
template <Fp8Type kType>
__device__ __forceinline__ uint2 narrow_to_fp8(const Floats& values, float scale) {
  return make_uint2(
      narrow_to_fp8<kType>(
          values.at[0] * scale, values.at[1] * scale, values.at[2] * scale, values.at[3] * scale),
      narrow_to_fp8<kType>(
          values.at[4] * scale, values.at[5] * scale, values.at[6] * scale, values.at[7] * scale));
}

__device__ __forceinline__ void store_fp8(Fp8* to, int64_t pack, uint2 bits) {
  reinterpret_cast<uint2*>(to)[pack] = bits;
}

// fmaxf() drops NaN. NaN still propagates through the values themselves.
__device__ __forceinline__ float largest(float amax, const Floats& values) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    amax = fmaxf(amax, fabsf(values.at[i]));
  }
  return amax;
}

// Reduces the maxima of the lanes of a warp; one thread updates the history. The integer maximum is
// correct because non-negative floats have the same order as their bits.
__device__ __forceinline__ void record(Fp8History* history, float amax) {
  amax = warp_max(amax);
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  if (thread % kWarp == 0) {
    atomicMax(reinterpret_cast<int*>(&history->amax), __float_as_int(amax));
  }
}

}  // namespace lockstep::kernels
