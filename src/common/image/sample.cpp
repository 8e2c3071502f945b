// SPDX-License-Identifier: Apache-2.0
#include "common/image/sample.h"

#include <fmt/format.h>
#include <string>

#include "lockstep/error.h"

namespace lockstep::image {
namespace {

bool is_interval(double minimum, double maximum) {
  return minimum > 0 && minimum <= maximum;
}

// Checked once for each Maker, not for each image.
void require_sense(const Recipe& recipe) {
  if (recipe.size < 1 || (!recipe.augments && recipe.resize < recipe.size)) {
    throw Error(ExitCode::Usage, "cannot make samples: the crop is larger than the resized image")
        .fact("size", std::to_string(recipe.size))
        .fact("resize", std::to_string(recipe.resize));
  }
  if (recipe.augments && (!is_interval(recipe.min_area, recipe.max_area) || recipe.max_area > 1 ||
                          !is_interval(recipe.min_ratio, recipe.max_ratio))) {
    throw Error(ExitCode::Usage, "cannot make samples: invalid area or ratio of random crops")
        .fact("area", fmt::format("{} to {}", recipe.min_area, recipe.max_area))
        .fact("ratio", fmt::format("{} to {}", recipe.min_ratio, recipe.max_ratio));
  }
}

}  // namespace

Maker::Maker(Recipe recipe) : recipe_(recipe) {
  require_sense(recipe);
}

Crop Maker::open(std::span<const std::byte> file, uint64_t key) {
  const Size size = renderer_.open(file);
  return recipe_.augments ? choose_random(recipe_, size.width, size.height, key)
                          : choose_middle(recipe_, size.width, size.height);
}

void Maker::make(std::span<const std::byte> file, uint64_t key, uint8_t* output) {
  const Crop crop = open(file, key);
  renderer_.render(crop, {.width = recipe_.size, .height = recipe_.size}, output);
}

JpegDecoder::Header Maker::plan(std::span<const std::byte> file, uint64_t key, RenderPlan& plan) {
  const Crop crop = open(file, key);
  if (!renderer_.has_end()) {
    throw Corrupt("ends early");
  }
  plan_render(renderer_.header(), crop, {.width = recipe_.size, .height = recipe_.size}, plan);
  return renderer_.header();
}

}  // namespace lockstep::image
