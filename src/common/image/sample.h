// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/image/corrupt.h"
#include "common/image/crop.h"
#include "common/image/renderer.h"

namespace lockstep::image {

// Creates samples from JPEG files. It contains the state of libjpeg and scratch memory, which are
// reused for the next image. Use a Maker from one thread.
class Maker {
 public:
  // Throws an Error (64) for an invalid recipe.
  explicit Maker(Recipe recipe);

  // Decodes the crop of `file` given by the recipe, upright, scales it with antialiasing, and
  // writes size * size * 3 bytes of RGB, row by row. Random choices depend only on `key` and the
  // size of the image. Throws Corrupt; the content of `output` is then undefined.
  void make(std::span<const std::byte> file, uint64_t key, uint8_t* output);

  // Plans what make() would write, for another decoder, and returns the header. Throws Corrupt for
  // an invalid header, and for a file without end marker.
  JpegDecoder::Header plan(std::span<const std::byte> file, uint64_t key, RenderPlan& plan);

 private:
  Crop open(std::span<const std::byte> file, uint64_t key);

  Recipe recipe_;
  Renderer renderer_;
};

}  // namespace lockstep::image
