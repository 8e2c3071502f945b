// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "image/pack_writer.h"
#include "image/renderer.h"
#include "image/store.h"

namespace lockstep::image {

// Images that need no download: shapes of ten kinds, four textures and five colours, at any place
// and size, before something uneven, with noise.
struct DrawnOptions {
  int classes = 10;  // at most kMostDrawnClasses
  int per_class = 100;
  int val_per_class = 10;
  uint64_t seed = 1;
  Size size = {.width = 64, .height = 64};
  int quality = 90;
  int threads = 1;
};

inline constexpr int kMostDrawnClasses = 200;

// One image, RGB, and where its shape is.
struct Drawing {
  std::vector<uint8_t> pixels;
  Region box;
};

// Depends on nothing but its arguments; `number` tells images of a class apart.
Drawing draw(int drawn_class, uint64_t number, uint64_t seed, Size size);

// "n90000012" and "a striped green ring".
ClassName name_of_drawn(int drawn_class);

// Whether these are the classes of a set that write_drawn() has made.
bool is_drawn(const std::vector<ClassName>& classes);

// Writes a set as TinyImageNet is distributed, with its lists, boxes and unlabelled test/, into
// `directory`, which must not be there. It appears when it is whole. Throws an Error (74).
void write_drawn(const std::filesystem::path& directory,
                 const DrawnOptions& options,
                 const Progress& progress);

}  // namespace lockstep::image
