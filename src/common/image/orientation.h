// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::image {

// The transformation from stored pixels to the upright image: first swap the axes, then mirror left
// to right and top to bottom.
struct Orientation {
  bool swaps = false;
  bool flips_x = false;
  bool flips_y = false;

  bool operator==(const Orientation&) const = default;
};

// The transformation of an EXIF orientation, 1 to 8; other values mean 1.
Orientation orientation_of(int exif);

// The EXIF orientation in the content of an APP1 marker; 1 if there is none or it is invalid.
int exif_orientation(std::span<const uint8_t> marker);

}  // namespace lockstep::image
