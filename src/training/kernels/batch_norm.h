// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

// Batch norm of features [rows, channels], where a row is a pixel; channels is a multiple of 64.
// Sums are accumulated in float32 and completed in float64. Results are deterministic.
namespace lockstep::kernels {

constexpr int64_t kNormChannels = 64;

// A workspace has batch_norm_workspace() bytes. The first kNormCounters bytes must be zero before
// the first call. Successive calls on one stream can share a workspace.
constexpr int64_t kNormCounters = 1024;
int64_t batch_norm_workspace();

// Statistics of a batch, [channels] each: normalised = input * scale + shift.
struct NormValues {
  float* mean = nullptr;
  float* rstd = nullptr;   // 1 / standard deviation
  float* scale = nullptr;  // weight * rstd
  float* shift = nullptr;  // bias - mean * scale
};

// Computes the statistics of a batch. Updates the running averages with `momentum`, as libtorch
// does, and increments `batches` unless it is null.
struct NormStatistics {
  NormValues values;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  int64_t* batches = nullptr;
  const Bf16* input = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  void* workspace = nullptr;
  int64_t rows = 0;
  int64_t channels = 0;
  float momentum = 0.1F;
  float epsilon = 1e-5F;
};
void batch_norm_statistics(const NormStatistics& call, Stream stream);

// output = ReLU(normalised + addend). `addend` can be null; it is normalised as well if
// addend_values has a scale. `mask`, [rows, channels / 8] bytes unless null, receives one bit per
// element: whether ReLU passed it.
struct NormForward {
  Bf16* output = nullptr;
  uint8_t* mask = nullptr;
  const Bf16* input = nullptr;
  NormValues values;
  const Bf16* addend = nullptr;
  NormValues addend_values;
  int64_t rows = 0;
  int64_t channels = 0;
};
void batch_norm_forward(const NormForward& call, Stream stream);

// The backward pass of one batch norm: gradients of weight and bias, [channels], and factors [3,
// channels], which give the gradient of the input: factors[0] * gradient + factors[1] * input +
// factors[2].
struct NormBack {
  const Bf16* input = nullptr;
  NormValues values;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
  float* factors = nullptr;
  Bf16* input_gradient = nullptr;  // [rows, channels]
};

// 3x3 max pooling with stride 2 and padding 1 after ReLU. `gradient` is then [images, height / 2,
// width / 2, channels], and `choice` is the result of pool_forward(). Null: no pooling.
struct Pooling {
  const uint8_t* choice = nullptr;
  int height = 0;  // height of the input of the pooling, even
  int width = 0;
};

// Computes the gradients of ReLU(normalised + addend) with respect to inputs and weights. The sign
// of the ReLU is read from `mask`, or recomputed if `mask` is null, which requires that there was
// no addend. `shortcut` is the batch norm of the addend, if its input is not null. `masked`, unless
// null, receives the gradient of the sum, which is the gradient of an addend that was not
// normalised.
struct NormBackward {
  const Bf16* gradient = nullptr;
  const uint8_t* mask = nullptr;
  Pooling pooling;
  NormBack main;
  NormBack shortcut;
  Bf16* masked = nullptr;
  void* workspace = nullptr;
  int64_t rows = 0;
  int64_t channels = 0;
};
void batch_norm_backward(const NormBackward& call, Stream stream);

}  // namespace lockstep::kernels
