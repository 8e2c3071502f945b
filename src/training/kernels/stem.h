// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/batch_norm.h"
#include "training/kernels/stream.h"

namespace lockstep::kernels {

// Images as input of the first convolution. Input elements are `bytes`, or `floats` if `bytes` is
// null. Each becomes value * scale[colour] + shift[colour]. Strides count elements.
struct StemInput {
  Bf16* output = nullptr;
  const uint8_t* bytes = nullptr;
  const float* floats = nullptr;
  int64_t stride_image = 0;
  int64_t stride_colour = 0;
  int64_t stride_row = 0;
  int64_t stride_column = 0;
  int64_t images = 0;
  int height = 0;
  int width = 0;
  float scale[3] = {1, 1, 1};
  float shift[3] = {0, 0, 0};
};

// Space to depth, for images of even size: 2x2 pixels become one cell of 12 channels (row, column,
// colour), padded to 16. Two cells of padding precede and one follows, so that a 7x7 convolution
// with stride 2 becomes 4x4 with stride 1. The output is [image, y, x, 16], with y from 0 to
// height / 2 + 2. The padding is zero.
constexpr int kCellChannels = 16;
void image_cells(const StemInput& call, Stream stream);

// The 3x3 neighbourhood of each pixel: 27 channels (row, column, colour), padded to 32, which makes
// a 3x3 convolution with padding 1 a matrix product. The output is [image, y, x, 32]. Pixels
// outside the image and the padding are zero.
constexpr int kPatchChannels = 32;
void image_patches(const StemInput& call, Stream stream);

// Max pooling of ReLU(normalised) with 3x3 windows, stride 2 and padding 1: output [images, height
// / 2, width / 2, channels]. `choice`, of the same shape, receives the index of the maximum in its
// window (the first, if several are equal), or kNoChoice if ReLU passed none.
constexpr uint8_t kNoChoice = 255;
struct PoolForward {
  Bf16* output = nullptr;
  uint8_t* choice = nullptr;
  const Bf16* input = nullptr;
  NormValues values;
  int64_t images = 0;
  int height = 0;  // even
  int width = 0;
  int64_t channels = 0;
};
void pool_forward(const PoolForward& call, Stream stream);

}  // namespace lockstep::kernels
