// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

struct Point {
  int64_t x;
  int64_t y;
};

// A line without lifting the pen, in a box of 100 x 100 units with y downwards.
struct Stroke {
  enum class Kind { Straight, Curve, Loop };

  Kind kind;
  std::vector<Point> points;
};

using Glyph = std::vector<Stroke>;

// The variants of `digit`, 0 to 9; at least one.
std::span<const Glyph> glyphs(uint64_t digit);

}  // namespace lockstep::data
