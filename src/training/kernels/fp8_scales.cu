// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/fp8.cuh"
#include "training/kernels/launch.h"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 256;
// A peak decays by half in 16 passes. An outlier therefore reduces the range only for a short time,
// and a maximum that alternates between batches does not saturate every second batch.
constexpr float kDecay = 0.957603281F;
constexpr int kLargestExponent = 100;

__global__ __launch_bounds__(kThreads) void refresh_kernel(Fp8Scale* scales,
                                                           Fp8History* history,
                                                           int64_t count,
                                                           bool advances) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) {
    return;
  }
  // The maximum of a pass that overflowed does not predict the next one, so it is dropped.
  Fp8History mine = history[i];
  const float recorded = isfinite(mine.amax) ? mine.amax : 0.0F;
  const float peak = fmaxf(recorded, advances ? mine.peak * kDecay : mine.peak);
  if (advances) {
    mine.peak = peak;
    mine.amax = 0;
    history[i] = mine;
  }
  // The largest power of two with peak * 2^exponent <= limit. The bound keeps scale and inverse
  // finite.
  int exponent = 0;
  if (peak > 0) {
    exponent = ilogbf(mine.limit / peak);
    exponent = min(max(exponent, -kLargestExponent), kLargestExponent);
  }
  scales[i] = {ldexpf(1.0F, exponent), ldexpf(1.0F, -exponent)};
}

__global__ __launch_bounds__(kThreads) void amax_kernel(Fp8History* history,
                                                        const Bf16* values,
                                                        int64_t packs) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  float amax = 0;
#pragma unroll 4
  for (int64_t pack = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; pack < packs;
       pack += step) {
    amax = largest(amax, widen(load_pack(values, pack)));
  }
  record(history, amax);
}

}  // namespace

void refresh_scales(
    Fp8Scale* scales, Fp8History* history, int64_t count, bool advances, Stream stream) {
  const auto blocks = static_cast<unsigned>(divide_up(count, kThreads));
  refresh_kernel<<<blocks, kThreads, 0, stream>>>(scales, history, count, advances);
  check_launch("refresh_scales");
}

void record_amax(Fp8History* history, const Bf16* values, int64_t count, Stream stream) {
  require(count % kPack == 0, "a number of values that 8 divides");
  const int64_t resident = static_cast<int64_t>(multiprocessors()) * 8;
  const int64_t needed = std::max<int64_t>(1, divide_up(count / kPack, kThreads));
  const auto blocks = static_cast<unsigned>(std::min(resident, needed));
  amax_kernel<<<blocks, kThreads, 0, stream>>>(history, values, count / kPack);
  check_launch("record_amax");
}

}  // namespace lockstep::kernels
