// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "image/corrupt.h"
#include "image/crop.h"
#include "image/renderer.h"

namespace lockstep::image {

// One thread's tools to make samples: libjpeg's state and scratch memory, reused from image to
// image.
class Maker {
 public:
  // Throws an Error (64) where the recipe makes no sense.
  explicit Maker(Recipe recipe);

  // Decodes the part of `file` that the recipe asks for, upright, scales it with antialiasing, and
  // writes size * size * 3 bytes of RGB, row by row. What is drawn at random depends on `key` and
  // the image's size alone. Throws Corrupt; `output` then holds anything.
  void make(std::span<const std::byte> file, uint64_t key, uint8_t* output);

 private:
  Recipe recipe_;
  Renderer renderer_;
};

}  // namespace lockstep::image
