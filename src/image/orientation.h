// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::image {

// How the pixels of a file lie to the picture that a person sees. First the axes are swapped, then
// the picture is mirrored left to right and top to bottom.
struct Orientation {
  bool swaps = false;
  bool flips_x = false;
  bool flips_y = false;

  bool operator==(const Orientation&) const = default;
};

// Of EXIF's number, 1 to 8; others mean 1.
Orientation orientation_of(int exif);

// EXIF's number in the content of an APP1 marker; 1 where there is none that can be read.
int exif_orientation(std::span<const uint8_t> marker);

}  // namespace lockstep::image
