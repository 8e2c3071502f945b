// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/kernels/device.cuh"

namespace lockstep::kernels {

// gelu(x) = x * sigmoid(u), u = 2 sqrt(2/pi) (x + 0.044715 x^3). This equals 0.5 x (1 + tanh(u/2)),
// but keeps its relative precision where tanh is near -1, and two fast instructions are precise
// enough.
constexpr float kGeluScale = 1.5957691216057308F;  // 2 sqrt(2/pi)
constexpr float kGeluCube = 0.044715F;

__device__ __forceinline__ float gelu_sigmoid(float x) {
  const float u = x * fmaf(kGeluScale * kGeluCube, x * x, kGeluScale);
  return __fdividef(1.0F, 1.0F + __expf(-u));
}

__device__ __forceinline__ float gelu(float x) {
  return x * gelu_sigmoid(x);
}

__device__ __forceinline__ float gelu_gradient(float x) {
  const float sigmoid = gelu_sigmoid(x);
  const float du = fmaf(3 * kGeluScale * kGeluCube, x * x, kGeluScale);
  return fmaf(x * sigmoid * (1.0F - sigmoid), du, sigmoid);
}

}  // namespace lockstep::kernels
