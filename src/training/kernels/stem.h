// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/batch_norm.h"
#include "training/kernels/stream.h"

namespace lockstep::kernels {

// Images as the stem's convolution wants them: 2x2 pixels become one of twelve channels (row,
// column, colour), padded to sixteen, with two such cells before and one after, so that 7x7 with
// stride 2 is 4x4 with stride 1. output[image, y, x, 16], y from 0 to height / 2 + 2. Borders are
// zero.
//
// value * scale[colour] + shift[colour] of bytes, where `bytes` is not null, or of `floats`;
// strides count elements.
constexpr int kCellChannels = 16;
struct ImageCells {
  Bf16* output = nullptr;
  const uint8_t* bytes = nullptr;
  const float* floats = nullptr;
  int64_t stride_image = 0;
  int64_t stride_colour = 0;
  int64_t stride_row = 0;
  int64_t stride_column = 0;
  int64_t images = 0;
  int height = 0;  // even
  int width = 0;
  float scale[3] = {1, 1, 1};
  float shift[3] = {0, 0, 0};
};
void image_cells(const ImageCells& call, Stream stream);

// The largest of ReLU(normalised) in windows of 3x3 with stride 2 and a border of one: output
// [images, height / 2, width / 2, channels]. `choice`, of the same shape, is given which of the
// nine it was, the first of equals, or kNoChoice where ReLU stopped them all.
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
