// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/image/crop.h"
#include "common/image/jpeg_decoder.h"
#include "common/image/resample.h"

namespace lockstep::image {

struct Size {
  int width = 0;
  int height = 0;

  bool operator==(const Size&) const = default;
};

// How the pixels of a decoded file become a sample. Axes count pixels of the decoded size.
struct RenderPlan {
  int eighths = JpegDecoder::kWhole;  // of the full size
  Axis columns;
  Axis rows;
  int64_t start = 0;  // offset of the first output pixel in bytes
  int64_t row_step = 0;
  int64_t column_step = 0;
};

// Plans the RGB image of `crop` in the given size. Reuses the memory of `plan`.
void plan_render(const JpegDecoder::Header& header, const Crop& crop, Size size, RenderPlan& plan);

// Decodes a part of a JPEG file and scales it, upright. Buffers are reused for the next file. Use a
// renderer from one thread. Throws Corrupt.
class Renderer {
 public:
  explicit Renderer(Damage damage = Damage::Tolerated) : decoder_(damage) {}

  // Reads the header; returns the upright size. `file` must stay valid until render() returns.
  Size open(std::span<const std::byte> file);

  // Writes the opened file as RGB, row by row. Call it once after each open().
  void render(const Crop& crop, Size size, uint8_t* output);

  // The header of the opened file, and whether the file has an end marker.
  const JpegDecoder::Header& header() const { return header_; }
  bool has_end() const { return decoder_.has_end(); }

 private:
  void write_rows(const Region& region, uint8_t* output);

  JpegDecoder decoder_;
  JpegDecoder::Header header_;
  RenderPlan plan_;
  Resampler resampler_;
  std::vector<uint8_t> ring_;  // the most recent source rows
  std::vector<const uint8_t*> blended_rows_;
};

}  // namespace lockstep::image
