// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::image {

using File = std::vector<std::byte>;

// A JPEG to be written by libjpeg itself.
struct Jpeg {
  int width = 64;
  int height = 48;
  int channels = 3;  // 1 grey, 3 RGB, 4 CMYK
  bool is_progressive = false;
  bool has_adobe = true;  // CMYK: as Adobe writes it; then give inverted inks
  bool is_ycck = false;   // CMYK by way of YCCK
  int horizontal = 2;     // chroma: pixels to one sample
  int vertical = 2;
  int orientation = 0;         // EXIF's; 0: without EXIF
  bool is_big_endian = false;  // EXIF
  int quality = 95;
  int restarts = 0;  // a restart marker after as many rows of blocks

  bool is_striped = false;  // every row is as the first

  // The value of a channel.
  std::function<int(int x, int y, int channel)> pixel = [](int, int, int) {
    return 128;
  };
};

File encode(const Jpeg& jpeg);

// The file with another size in its frame header.
File with_size(File file, int width, int height);

// The file with its last bytes left out, but for the marker of the end.
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

// All of a file, at full size, by libjpeg alone and as it is stored.
Picture decode(const File& file);

}  // namespace lockstep::image
