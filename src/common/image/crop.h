// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::image {

// The conversion of an image to a sample.
struct Recipe {
  int size = 224;          // width and height of the sample in pixels
  bool augments = false;   // random crop and flip; otherwise the centre crop
  int resize = 256;        // without augmentation: length of the short edge before the centre crop
  double min_area = 0.08;  // of a random crop, as a fraction of the image
  double max_area = 1.0;
  double min_ratio = 3.0 / 4;  // width / height
  double max_ratio = 4.0 / 3;
};

// A part of an upright image, in pixels.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

// The part of the image that a sample shows.
struct Crop {
  Box box;
  Box limits;  // pixels that the filter can use for the box
  bool is_mirrored = false;
};

// RandomResizedCrop and RandomHorizontalFlip of torchvision: ten attempts with random area and
// ratio, then the centre crop. Depends only on `key`.
Crop choose_random(const Recipe& recipe, int width, int height, uint64_t key);

// Resize(resize) and CenterCrop(size) of torchvision.
Crop choose_middle(const Recipe& recipe, int width, int height);

}  // namespace lockstep::image
