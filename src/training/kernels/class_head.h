// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// Mean over the pixels of each image: output [images, channels], input [images, pixels, channels].
// channels is a multiple of 8.
struct PixelMean {
  Bf16* output = nullptr;
  const Bf16* input = nullptr;
  int64_t images = 0;
  int64_t pixels = 0;
  int64_t channels = 0;
};
void pixel_mean(const PixelMean& call, Stream stream);

// Backward pass of pixel_mean(): each pixel of `output` is gradient [images, channels] / pixels.
struct PixelMeanBackward {
  Bf16* output = nullptr;
  const Bf16* gradient = nullptr;
  int64_t images = 0;
  int64_t pixels = 0;
  int64_t channels = 0;
};
void pixel_mean_backward(const PixelMeanBackward& call, Stream stream);

// Rows with this target are ignored, as in the cross entropy of libtorch.
constexpr int64_t kNoTarget = -100;

// Cross entropy of each row of scores [rows, classes] with its target; label smoothing spreads
// `smoothing` of each target evenly over all classes. *loss is the mean over the rows with a
// target. For the backward pass, *share is the weight of one row in this mean, and log_sum_exp has
// one value per row. Suited to thousands of classes; cross_entropy() is for tens of thousands. A
// target that is neither kNoTarget nor a class makes the loss and the gradient of its row NaN.
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

// Backward pass of class_entropy(): the gradient of the scores, where *factor is the gradient of
// the mean. The gradient is zero in rows without a target.
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
