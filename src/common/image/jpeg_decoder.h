// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/image/corrupt.h"
#include "common/image/orientation.h"

namespace lockstep::image {

// A rectangle of pixels.
struct Region {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
};

// Handling of damage in the middle of the compressed data, after which libjpeg continues with wrong
// pixels. An image that ends early is always Corrupt.
enum class Damage {
  Tolerated,  // a part of the image can be wrong
  Refused,    // throws Corrupt, if libjpeg detects the damage
};

// How a file stores colours. Luma and chroma are separate planes; the number says how many chroma
// samples there are. Other: progressive files, CMYK, RGB and rare samplings.
enum class Coding { Other, Grey, Yuv444, Yuv422, Yuv420 };

// Decodes a part of a JPEG file, row by row. The state of libjpeg is reused for the next file. Use
// a decoder from one thread. Every call throws Corrupt for an invalid file. open() can be called at
// any time and starts with a new file.
class JpegDecoder {
 public:
  struct Header {
    int width = 0;  // as stored, before the EXIF orientation is applied
    int height = 0;
    Orientation orientation;
    Coding coding = Coding::Other;
  };

  // Full size in eighths. libjpeg decodes smaller sizes faster.
  static constexpr int kWhole = 8;

  explicit JpegDecoder(Damage damage = Damage::Tolerated);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header. `file` must stay valid until finish().
  Header open(std::span<const std::byte> file);

  // Whether an end marker follows the header of the opened file. A file without one is truncated.
  bool has_end() const;

  // Starts decoding at `eighths` of the full size; the region is in pixels of the reduced size.
  // Returns the region that is decoded: of the requested height, and at least as wide.
  Region start(int eighths, Region wanted);

  // The next row of that region as RGBX, four bytes per pixel.
  void read_row(uint8_t* row);

  // To be called after the last row; checks that the file has an end marker.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The length of an edge of `pixels` at this many eighths of the size.
constexpr int scaled_pixels(int pixels, int eighths) {
  return static_cast<int>((int64_t{pixels} * eighths + JpegDecoder::kWhole - 1) /
                          JpegDecoder::kWhole);
}

}  // namespace lockstep::image
