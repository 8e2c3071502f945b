// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"
#include "training/kernels/optimizer.cuh"
#include "training/kernels/optimizer.h"

namespace lockstep::kernels {
namespace {

// Both halves of a step are limited by memory bandwidth. Each reads and writes every array once:
// 14 bytes per element in the first half, 10 in the second.

struct MomentumWork {
  __device__ __forceinline__ static bool is_wide(const UpdatedTensor& tensor) {
    return is_aligned(tensor.gradient, sizeof(float4)) &&
           is_aligned(tensor.first, sizeof(float4)) && is_aligned(tensor.update, sizeof(uint2));
  }

  __device__ __forceinline__ static float combine(float gradient, float& first, float momentum) {
    first = fmaf(momentum, first, gradient);
    return fmaf(momentum, first, gradient);
  }

  __device__ __forceinline__ static void one(const UpdatedTensor& tensor,
                                             int64_t at,
                                             const Rates& rates,
                                             float factor) {
    float first = tensor.first[at];
    tensor.update[at] = narrow(combine(tensor.gradient[at] * factor, first, rates.beta1));
    tensor.first[at] = first;
  }

  __device__ __forceinline__ static void four(const UpdatedTensor& tensor,
                                              int64_t at,
                                              const Rates& rates,
                                              float factor) {
    const float4 gradient = load_wide(tensor.gradient, at);
    float4 first = load_wide(tensor.first, at);
    const float x = combine(gradient.x * factor, first.x, rates.beta1);
    const float y = combine(gradient.y * factor, first.y, rates.beta1);
    const float z = combine(gradient.z * factor, first.z, rates.beta1);
    const float w = combine(gradient.w * factor, first.w, rates.beta1);
    store_wide(tensor.first, at, first);
    *reinterpret_cast<uint2*>(tensor.update + at) = make_uint2(narrow(x, y), narrow(z, w));
  }
};

struct UpdateWork {
  __device__ __forceinline__ static bool is_wide(const UpdatedTensor& tensor) {
    return is_aligned(tensor.parameter, sizeof(float4)) && is_aligned(tensor.update, sizeof(uint2));
  }

  __device__ __forceinline__ static void one(const UpdatedTensor& tensor,
                                             int64_t at,
                                             const Rates& rates,
                                             float /*factor*/) {
    const float kept = 1.0F - rates.lr * rates.weight_decay;
    const float length = rates.lr * tensor.scale;
    tensor.parameter[at] = tensor.parameter[at] * kept - length * widen(tensor.update[at]);
  }

  __device__ __forceinline__ static void four(const UpdatedTensor& tensor,
                                              int64_t at,
                                              const Rates& rates,
                                              float /*factor*/) {
    const float kept = 1.0F - rates.lr * rates.weight_decay;
    const float length = rates.lr * tensor.scale;
    const uint2 update = *reinterpret_cast<const uint2*>(tensor.update + at);
    float4 parameter = load_wide(tensor.parameter, at);
    parameter.x = parameter.x * kept - length * widen_low(update.x);
    parameter.y = parameter.y * kept - length * widen_high(update.x);
    parameter.z = parameter.z * kept - length * widen_low(update.y);
    parameter.w = parameter.w * kept - length * widen_high(update.y);
    store_wide(tensor.parameter, at, parameter);
  }
};

// Elements [from, to) of a tensor: groups of four start at multiples of four, the rest one by one.
template <typename Work>
__device__ __forceinline__ void process_part(
    const UpdatedTensor& tensor, int64_t from, int64_t to, const Rates& rates, float factor) {
  const auto thread = static_cast<int64_t>(threadIdx.x);
  const int64_t body = (from + kWide - 1) / kWide * kWide;
  const int64_t tail = to / kWide * kWide;
  if (!Work::is_wide(tensor) || body > tail) {
    for (int64_t at = from + thread; at < to; at += kThreads) {
      Work::one(tensor, at, rates, factor);
    }
    return;
  }
  if (from + thread < body) {
    Work::one(tensor, from + thread, rates, factor);
  }
  if (tail + thread < to) {
    Work::one(tensor, tail + thread, rates, factor);
  }
  constexpr int64_t kStep = static_cast<int64_t>(kThreads) * kWide;
#pragma unroll 2
  for (int64_t at = body + thread * kWide; at < tail; at += kStep) {
    Work::four(tensor, at, rates, factor);
  }
}

template <typename Work>
__global__ __launch_bounds__(kThreads) void muon_kernel(
    const UpdatedTensor* tensors, int count, int64_t elements, const Rates* rates, Clip clip) {
  if (skips_step(clip)) {
    return;
  }
  const float factor = clip_factor(clip);
  const int64_t start = static_cast<int64_t>(blockIdx.x) * kChunk;
  const int64_t stop = start + kChunk < elements ? start + kChunk : elements;
  for_each_part(
      tensors, count, start, stop, [&](const UpdatedTensor& tensor, int64_t from, int64_t to) {
        const Rates held = rates[tensor.group];  // a copy, which no store can change
        process_part<Work>(tensor, from, to, held, held.gradient_scale * factor);
      });
}

template <typename Work>
void launch(const UpdatedTensor* tensors,
            int count,
            int64_t elements,
            const Rates* rates,
            const Clip& clip,
            const char* name,
            Stream stream) {
  if (elements == 0) {
    return;
  }
  const auto blocks = static_cast<unsigned>(divide_up(elements, kChunk));
  muon_kernel<Work><<<blocks, kThreads, 0, stream>>>(tensors, count, elements, rates, clip);
  check_launch(name);
}

}  // namespace

void muon_momentum(const UpdatedTensor* tensors,
                   int count,
                   int64_t elements,
                   const Rates* rates,
                   const Clip& clip,
                   Stream stream) {
  launch<MomentumWork>(tensors, count, elements, rates, clip, "muon_momentum", stream);
}

void muon_update(const UpdatedTensor* tensors,
                 int count,
                 int64_t elements,
                 const Rates* rates,
                 const Clip& clip,
                 Stream stream) {
  launch<UpdateWork>(tensors, count, elements, rates, clip, "muon_update", stream);
}

}  // namespace lockstep::kernels
