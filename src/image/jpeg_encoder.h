// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "image/renderer.h"

namespace lockstep::image {

// Writes JPEG files as cameras do: baseline, colours at half the resolution. Keeps libjpeg's state
// from image to image; one thread at a time.
class JpegEncoder {
 public:
  JpegEncoder();
  ~JpegEncoder();
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  // `pixels` are RGB, row by row; `quality` is 1 to 100. The result is good until the next call.
  // Throws an Error (74) when there is no memory for it.
  std::span<const std::byte> encode(const uint8_t* pixels, Size size, int quality);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::image
