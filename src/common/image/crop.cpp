// SPDX-License-Identifier: Apache-2.0
#include "common/image/crop.h"

#include <algorithm>
#include <cmath>

#include "common/base/random.h"

namespace lockstep::image {
namespace {

constexpr uint64_t kStream = 0x63726f70;  // differs from other random streams with the same key
constexpr int kTries = 10;

// Uniform between `minimum` and `maximum`. 53 random bits times 2^-53: every double of that grid in
// [0, 1) has the same probability, and the result does not depend on the standard library.
double uniform(Random& random, double minimum, double maximum) {
  return minimum + (maximum - minimum) * (static_cast<double>(random.next() >> 11) * 0x1p-53);
}

// Rounds half to even, like round() in Python.
int64_t nearest(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

Crop part(int64_t left, int64_t top, int64_t width, int64_t height) {
  const Box box = {.left = static_cast<double>(left),
                   .top = static_cast<double>(top),
                   .right = static_cast<double>(left + width),
                   .bottom = static_cast<double>(top + height)};
  return {.box = box, .limits = box};
}

// The largest centre crop with an allowed ratio.
Crop central_part(const Recipe& recipe, int64_t width, int64_t height) {
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  int64_t w = width;
  int64_t h = height;
  if (ratio < recipe.min_ratio) {
    h = std::clamp<int64_t>(nearest(static_cast<double>(w) / recipe.min_ratio), 1, height);
  } else if (ratio > recipe.max_ratio) {
    w = std::clamp<int64_t>(nearest(static_cast<double>(h) * recipe.max_ratio), 1, width);
  }
  return part((width - w) / 2, (height - h) / 2, w, h);
}

// As torchvision.transforms.RandomResizedCrop.get_params: area uniform, aspect ratio uniform in its
// logarithm, at most ten attempts. The sequence of random numbers is part of the format of a run.
Crop choose_part(const Recipe& recipe, int64_t width, int64_t height, Random& random) {
  const double pixels = static_cast<double>(width) * static_cast<double>(height);
  for (int i = 0; i < kTries; ++i) {
    const double area = pixels * uniform(random, recipe.min_area, recipe.max_area);
    const double ratio =
        std::exp(uniform(random, std::log(recipe.min_ratio), std::log(recipe.max_ratio)));
    const int64_t w = nearest(std::sqrt(area * ratio));
    const int64_t h = nearest(std::sqrt(area / ratio));
    if (w > 0 && w <= width && h > 0 && h <= height) {
      const int64_t top = random.between(0, height - h);
      const int64_t left = random.between(0, width - w);
      return part(left, top, w, h);
    }
  }
  return central_part(recipe, width, height);
}

}  // namespace

Crop choose_random(const Recipe& recipe, int width, int height, uint64_t key) {
  Random random(key, kStream);
  Crop crop = choose_part(recipe, width, height, random);
  crop.is_mirrored = random.below(2) == 1;
  return crop;
}

Crop choose_middle(const Recipe& recipe, int width, int height) {
  const int64_t shorter = std::min(width, height);
  // The long edge is rounded down, as in torchvision.
  const int64_t w = int64_t{width} * recipe.resize / shorter;
  const int64_t h = int64_t{height} * recipe.resize / shorter;
  const double x_scale = static_cast<double>(width) / static_cast<double>(w);
  const double y_scale = static_cast<double>(height) / static_cast<double>(h);
  const auto left = static_cast<double>(nearest(static_cast<double>(w - recipe.size) / 2));
  const auto top = static_cast<double>(nearest(static_cast<double>(h - recipe.size) / 2));
  return {.box = {.left = left * x_scale,
                  .top = top * y_scale,
                  .right = (left + recipe.size) * x_scale,
                  .bottom = (top + recipe.size) * y_scale},
          .limits = {.right = static_cast<double>(width), .bottom = static_cast<double>(height)}};
}

}  // namespace lockstep::image
