// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// The mean over the pixels of each image: output [images, channels] of input [images, pixels,
// channels]. channels is a multiple of 8.
struct PixelMean {
  Bf16* output = nullptr;
  const Bf16* input = nullptr;
  int64_t images = 0;
  int64_t pixels = 0;
  int64_t channels = 0;
};
void pixel_mean(const PixelMean& call, Stream stream);

// Its backward: every pixel of `output` is given the image's `gradient` [images, channels] /
// pixels.
struct PixelMeanBackward {
  Bf16* output = nullptr;
  const Bf16* gradient = nullptr;
  int64_t images = 0;
  int64_t pixels = 0;
  int64_t channels = 0;
};
void pixel_mean_backward(const PixelMeanBackward& call, Stream stream);

// A row with this target is left out, as libtorch's cross entropy leaves it out.
constexpr int64_t kNoTarget = -100;

// The cross entropy of each row of scores [rows, classes] with its target, of which `smoothing`
// belongs to all classes alike: its mean over the rows that have a target, *loss, and what the
// backward wants: each row's share of that mean, *share, and the logarithm of its sum of powers.
// For classes by the thousand; of tens of thousands there is cross_entropy(). A target that is
// neither kNoTarget nor a class makes the loss NaN, and the gradient of its row.
struct ClassEntropy {
  float* loss = nullptr;
  float* share = nullptr;
  float* losses = nullptr;
  float* log_sum_exp = nullptr;
  const Bf16* scores = nullptr;
  const int64_t* targets = nullptr;
  int64_t rows = 0;
  int64_t classes = 0;
  float smoothing = 0;
};
void class_entropy(const ClassEntropy& call, Stream stream);

// Its backward: the gradient of the scores, of their shape, where that of the mean is *factor.
// Zero in a row that has no target.
struct ClassEntropyBackward {
  Bf16* gradient = nullptr;
  const float* factor = nullptr;
  const float* share = nullptr;
  const float* log_sum_exp = nullptr;
  const Bf16* scores = nullptr;
  const int64_t* targets = nullptr;
  int64_t rows = 0;
  int64_t classes = 0;
  float smoothing = 0;
};
void class_entropy_backward(const ClassEntropyBackward& call, Stream stream);

}  // namespace lockstep::kernels
