// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/image/renderer.h"

namespace lockstep::image {

// Writes baseline JPEG files with chroma at half resolution, like most cameras. Reuses the state of
// libjpeg for the next image. Use an encoder from one thread.
class JpegEncoder {
 public:
  JpegEncoder();
  ~JpegEncoder();
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  // `pixels` are RGB, row by row; `quality` is 1 to 100. The result is valid until the next call.
  // Throws an Error (74) if there is not enough memory.
  std::span<const std::byte> encode(const uint8_t* pixels, Size size, int quality);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::image
