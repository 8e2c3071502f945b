// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/image/pack_writer.h"
#include "common/image/renderer.h"
#include "common/image/store.h"

namespace lockstep::image {

// Generated images, which need no download: ten shapes in four textures and five colours, at random
// positions and sizes, with an uneven background and noise.
struct DrawnOptions {
  int classes = 10;  // maximum: kMaxDrawnClasses
  int per_class = 100;
  int val_per_class = 10;
  uint64_t seed = 1;
  Size size = {.width = 64, .height = 64};
  int quality = 90;
  int threads = 1;
};

inline constexpr int kMaxDrawnClasses = 200;

// An RGB image and the bounding box of its shape.
struct Drawing {
  std::vector<uint8_t> pixels;
  Region box;
};

// Depends only on its arguments; `number` identifies an image of a class.
Drawing draw(int drawn_class, uint64_t number, uint64_t seed, Size size);

// "n90000012" and "a striped green ring".
ClassName name_of_drawn(int drawn_class);

// Whether these are the classes of a data set from write_drawn().
bool is_drawn(const std::vector<ClassName>& classes);

// Writes a data set in the layout of TinyImageNet, with its lists, boxes and unlabelled test/, to
// `directory`, which must not exist. The directory appears when it is complete. Throws an Error
// (74).
void write_drawn(const std::filesystem::path& directory,
                 const DrawnOptions& options,
                 const Progress& progress);

}  // namespace lockstep::image
