// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "image/corrupt.h"
#include "image/orientation.h"

namespace lockstep::image {

// Pixels from `left` and `top` on.
struct Region {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
};

// What becomes of damage in the middle of the compressed data, after which libjpeg goes on with
// wrong pixels. An image that ends early is Corrupt always.
enum class Damage {
  Tolerated,  // a part of the image may be wrong
  Refused,    // Corrupt, as far as libjpeg notices it
};

// Decodes JPEG files, a part of each, row by row; libjpeg's state is kept from file to file. One
// thread at a time. Every call throws Corrupt when the file is not as it should be; then, as at any
// time, the next open() begins anew.
class JpegDecoder {
 public:
  struct Header {
    int width = 0;  // as stored, before it is turned upright
    int height = 0;
    Orientation orientation;
  };

  // Eight parts are the whole; all else is a size that libjpeg can make faster than the whole.
  static constexpr int kWhole = 8;

  explicit JpegDecoder(Damage damage = Damage::Tolerated);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header. `file` must stay until finish().
  Header open(std::span<const std::byte> file);

  // Begins to decode at `eighths` of the size, the region counted in pixels of that size. Returns
  // the region whose rows will come: as high as asked, and as wide or wider.
  Region start(int eighths, Region wanted);

  // The next row of that region as RGBX, four bytes a pixel.
  void read_row(uint8_t* row);

  // After the last row that is needed; sees whether the file has its end.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The pixels along an edge of `pixels` at that many eighths of the size.
constexpr int scaled_pixels(int pixels, int eighths) {
  return static_cast<int>((int64_t{pixels} * eighths + JpegDecoder::kWhole - 1) /
                          JpegDecoder::kWhole);
}

}  // namespace lockstep::image
