// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::image {

// How an image becomes a sample.
struct Recipe {
  int size = 224;          // pixels of each edge of the sample
  bool augments = false;   // a random part, perhaps mirrored; else the middle
  int resize = 256;        // without augmenting: the short edge before the middle is cut out
  double min_area = 0.08;  // of a random part, as a share of the image
  double max_area = 1.0;
  double min_ratio = 3.0 / 4;  // of its width to its height
  double max_ratio = 4.0 / 3;
};

// A part of an upright image, in its pixels.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

// What a sample shows.
struct Crop {
  Box box;
  Box limits;  // pixels that may be looked at to make those of the box
  bool is_mirrored = false;
};

// torchvision's RandomResizedCrop and RandomHorizontalFlip: ten tries of an area and a ratio, then
// the middle. Depends on `key` alone.
Crop choose_random(const Recipe& recipe, int width, int height, uint64_t key);

// torchvision's Resize(resize) and CenterCrop(size).
Crop choose_middle(const Recipe& recipe, int width, int height);

}  // namespace lockstep::image
