// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::image {

using File = std::vector<std::byte>;

// Options of a JPEG file that libjpeg writes.
struct Jpeg {
  int width = 64;
  int height = 48;
  int channels = 3;  // 1 grey, 3 RGB, 4 CMYK
  bool is_progressive = false;
  bool has_adobe = true;  // CMYK of Adobe; the inks must be inverted
  bool is_ycck = false;   // CMYK stored as YCCK
  int horizontal = 2;     // chroma: pixels per sample
  int vertical = 2;
  int orientation = 0;         // EXIF orientation; 0: no EXIF
  bool is_big_endian = false;  // EXIF
  int quality = 95;
  int restarts = 0;  // number of block rows between restart markers

  bool is_striped = false;  // all rows are equal

  // The value of a channel.
  std::function<int(int x, int y, int channel)> pixel = [](int, int, int) {
    return 128;
  };
};

File encode(const Jpeg& jpeg);

// The file with another size in its frame header.
File with_size(File file, int width, int height);

// The file without its last bytes, but with the end marker.
File without_last(const File& file, size_t bytes);

File bytes_of(const std::string& text);

// RGB, row by row.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;

  int at(int x, int y, int channel) const {
    return pixels[(static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) *
                      3 +
                  static_cast<size_t>(channel)];
  }
};

// Decodes an entire file with libjpeg, at full size, without its orientation.
Picture decode(const File& file);

}  // namespace lockstep::image
