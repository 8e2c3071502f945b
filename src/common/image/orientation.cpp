// SPDX-License-Identifier: Apache-2.0
#include "common/image/orientation.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace lockstep::image {
namespace {

constexpr std::array<uint8_t, 6> kExif = {'E', 'x', 'i', 'f', 0, 0};
constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShort = 3;  // TIFF type of two-byte integers
constexpr size_t kEntryBytes = 12;

// Reader of a TIFF structure, the format of EXIF, in either byte order. Reads beyond its end return
// 0.
class Tiff {
 public:
  explicit Tiff(std::span<const uint8_t> bytes) : bytes_(bytes) {
    is_little_ = byte(0) == 'I' && byte(1) == 'I';
  }

  bool is_valid() const {
    return (is_little_ || (byte(0) == 'M' && byte(1) == 'M')) && two(2) == 42;
  }

  uint32_t two(size_t at) const {
    return is_little_ ? byte(at) | byte(at + 1) << 8 : byte(at) << 8 | byte(at + 1);
  }

  uint32_t four(size_t at) const {
    return is_little_ ? two(at) | two(at + 2) << 16 : two(at) << 16 | two(at + 2);
  }

 private:
  uint32_t byte(size_t at) const { return at < bytes_.size() ? bytes_[at] : 0U; }

  std::span<const uint8_t> bytes_;
  bool is_little_ = false;
};

}  // namespace

Orientation orientation_of(int exif) {
  switch (exif) {
    case 2:
      return {.flips_x = true};
    case 3:
      return {.flips_x = true, .flips_y = true};
    case 4:
      return {.flips_y = true};
    case 5:
      return {.swaps = true};
    case 6:
      return {.swaps = true, .flips_x = true};
    case 7:
      return {.swaps = true, .flips_x = true, .flips_y = true};
    case 8:
      return {.swaps = true, .flips_y = true};
    default:
      return {};
  }
}

// The structure, with offsets from the beginning of the TIFF part:
//
//   "Exif\0\0" | "II" or "MM", 42, offset of directory | ... | count | entry, 12 bytes | entry ...
//   entry:  tag (2)  type (2)  number of values (4)  value or its offset (4)
//
// A value of two bytes is in the first half of the last field, in either byte order.
int exif_orientation(std::span<const uint8_t> marker) {
  if (marker.size() < kExif.size() || !std::equal(kExif.begin(), kExif.end(), marker.begin())) {
    return 1;
  }
  const Tiff tiff(marker.subspan(kExif.size()));
  if (!tiff.is_valid()) {
    return 1;
  }
  const size_t directory = tiff.four(4);
  const size_t entries = tiff.two(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (tiff.two(entry) == kOrientationTag && tiff.two(entry + 2) == kShort) {
      const uint32_t value = tiff.two(entry + 8);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
  }
  return 1;
}

}  // namespace lockstep::image
