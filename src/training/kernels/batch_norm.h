// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

// Batch norm of features [rows, channels], where a row is a pixel; channels is a multiple of 64.
// Sums are taken in float32 and finished in float64; the same inputs give the same bits.
namespace lockstep::kernels {

constexpr int64_t kNormChannels = 64;

// A workspace is batch_norm_workspace() bytes, of which the first kNormCounters are zero before the
// first call; calls that follow each other on a stream may share it.
constexpr int64_t kNormCounters = 1024;
int64_t batch_norm_workspace();

// What is known of a batch, [channels] each: normalised = input * scale + shift.
struct NormValues {
  float* mean = nullptr;
  float* rstd = nullptr;   // 1 / standard deviation
  float* scale = nullptr;  // weight * rstd
  float* shift = nullptr;  // bias - mean * scale
};

// The values of this batch. The running averages move towards them by `momentum`, as libtorch's do,
// and `batches` is counted up, unless null.
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

// output = ReLU(normalised + addend). `addend` may be null; it is normalised itself where
// addend_values has a scale. `mask`, [rows, channels / 8] bytes unless null, is given a bit for
// each number that ReLU let through.
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

// A batch norm on the way back: gradients of weight and bias, [channels], and what the gradient of
// its input is made with, factors [3, channels]: factors[0] * gradient + factors[1] * input +
// factors[2].
struct NormBack {
  const Bf16* input = nullptr;
  NormValues values;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
  float* factors = nullptr;
  Bf16* input_gradient = nullptr;  // [rows, channels]
};

// 3x3 pooling with stride 2 and a border of one, between ReLU and the gradient: `gradient` is then
// [images, height / 2, width / 2, channels], and `choice` as pool_forward() left it. No pooling
// where `choice` is null.
struct Pooling {
  const uint8_t* choice = nullptr;
  int height = 0;  // of what was pooled, even
  int width = 0;
};

// The gradient of ReLU(normalised + addend) with respect to inputs and weights. ReLU's sign comes
// from `mask`, or is found out again where that is null and there was no addend. `shortcut` is the
// batch norm of the addend, if its input is not null. `masked`, unless null, is given the gradient
// behind ReLU: that of an addend which was not normalised.
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
