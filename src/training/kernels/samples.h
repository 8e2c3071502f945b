// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// A plane of a decoded JPEG file.
struct JpegPlane {
  const uint8_t* pixels = nullptr;
  int pitch = 0;
  int width = 0;
  int height = 0;
  int shift = 0;  // averages of 2^shift x 2^shift pixels are used instead of pixels
};

// The weights of output pixels along one edge, as in image::Axis. Output i is the weighted sum of
// the pixels first[i] to first[i] + count[i] - 1.
struct SampleAxis {
  const int32_t* first = nullptr;
  const int32_t* count = nullptr;
  const int16_t* weights = nullptr;  // `taps` per output
  int taps = 0;
};

// One sample: a part of a decoded image, converted to RGB and scaled.
struct SampleJob {
  JpegPlane planes[3];      // Y, Cb, Cr; grey: only Y
  bool has_colour = false;  // false: grey
  bool halves_x = false;    // chroma has half as many columns
  bool halves_y = false;    // and half as many rows; only together with halves_x
  int left = 0;             // the part that the axes need
  int top = 0;
  int width = 0;
  int height = 0;
  uint32_t* part = nullptr;  // scratch memory of width x height pixels, RGBX
  SampleAxis columns;
  SampleAxis rows;
  uint8_t* output = nullptr;  // of the first output pixel, RGB
  int64_t row_step = 0;       // in bytes; can be negative
  int64_t column_step = 0;
};

// Maximum number of columns of a part.
constexpr int kMostSampleColumns = 4096;

struct MakeSamples {
  const SampleJob* jobs = nullptr;  // on the GPU, with all that they refer to
  int count = 0;
  int size = 0;        // outputs per axis
  int most_width = 0;  // of all parts
  int64_t most_pixels = 0;
};

// Computes what libjpeg-turbo and image::Resampler compute on the CPU, with the same integers:
// interpolated chroma, conversion to RGB, antialiased scaling. At reduced sizes libjpeg averages
// before it rounds, here after; the difference is at most one level of luma or chroma.
void make_samples(const MakeSamples& call, Stream stream);

}  // namespace lockstep::kernels
