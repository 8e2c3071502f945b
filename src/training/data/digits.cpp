// SPDX-License-Identifier: Apache-2.0
#include "training/data/digits.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "lockstep/datasets.h"
#include "lockstep/error.h"
#include "training/data/byte_images.h"
#include "training/data/glyphs.h"

// All arithmetic uses integers. Floating-point results differ in the last bit between compilers
// (fused multiply-add) and C libraries (sin, cos), but the data set must be the same everywhere.
namespace lockstep::data {
namespace {

constexpr int64_t kPixel = 256;     // unit of lengths: 1/256 of a pixel
constexpr int64_t kOne = 1024;      // unit of factors: 1/1024
constexpr int64_t kBox = 20;        // size of a glyph of 100 units in pixels
constexpr int64_t kSoftEdge = 150;  // half of the width in which the edge of a stroke fades
constexpr int64_t kFullInk = 255;

// The random deviations of one image from its glyph.
struct Hand {
  std::array<int64_t, 4> matrix;  // row by row, in units of 1/kOne
  Point centre;
  int64_t pen;     // half of the width of a stroke
  int64_t ink;     // maximum darkness
  int64_t noise;   // maximum deviation of a pixel
  int64_t tremor;  // maximum displacement of a point, in glyph units
};

// Rotation by a small angle t, with the approximations cos t = 1 - t^2/2 and sin t = t.
std::array<int64_t, 4> turn_and_stretch(int64_t turn,
                                        int64_t slant,
                                        int64_t width,
                                        int64_t height) {
  const int64_t cosine = kOne - turn * turn / (2 * kOne);
  return {cosine * width / kOne,
          (slant - turn) * height / kOne,
          turn * width / kOne,
          cosine * height / kOne};
}

Hand choose_hand(Random& random) {
  const int64_t height = random.between(700, 1100);
  const int64_t width = height * random.between(600, 1000) / kOne;
  const int64_t turn = random.between(-260, 260);
  const int64_t slant = random.between(-200, 300);
  constexpr int64_t kMiddle = kImageSide * kPixel / 2;
  constexpr int64_t kShift = 5 * kPixel / 2;
  return {.matrix = turn_and_stretch(turn, slant, width, height),
          .centre = {kMiddle + random.between(-kShift, kShift),
                     kMiddle + random.between(-kShift, kShift)},
          .pen = random.between(150, 420),
          .ink = random.between(130, 255),
          .noise = random.between(0, 70),
          .tremor = 7};
}

// Smooths a line by cutting its corners twice (Chaikin, 1974).
std::vector<Point> smooth(std::vector<Point> line, bool is_closed) {
  const auto between = [](Point a, Point b) {
    return Point{(3 * a.x + b.x) / 4, (3 * a.y + b.y) / 4};
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<Point> cut;
    const size_t sides = is_closed ? line.size() : line.size() - 1;
    for (size_t i = 0; i < sides; ++i) {
      const Point here = line[i];
      const Point there = line[(i + 1) % line.size()];
      cut.push_back(between(here, there));
      cut.push_back(between(there, here));
    }
    if (!is_closed) {
      cut.front() = line.front();
      cut.back() = line.back();
    }
    line = std::move(cut);
  }
  return line;
}

// An image that is being drawn.
class Canvas {
 public:
  explicit Canvas(std::span<uint8_t> pixels) : pixels_(pixels) {}

  // Darkens all pixels within `pen` of the straight line from `a` to `b`.
  void draw(Point a, Point b, int64_t pen, int64_t ink) {
    const int64_t reach = pen + kSoftEdge;
    const int64_t core = std::max<int64_t>(pen - kSoftEdge, 0);
    const Point along = {b.x - a.x, b.y - a.y};
    const int64_t length2 = std::max<int64_t>(along.x * along.x + along.y * along.y, 1);
    const int64_t left = clamp_pixel((std::min(a.x, b.x) - reach) / kPixel);
    const int64_t right = clamp_pixel((std::max(a.x, b.x) + reach) / kPixel);
    const int64_t bottom = clamp_pixel((std::max(a.y, b.y) + reach) / kPixel);
    for (int64_t y = clamp_pixel((std::min(a.y, b.y) - reach) / kPixel); y <= bottom; ++y) {
      for (int64_t x = left; x <= right; ++x) {
        // Distance from the nearest point of the line to the centre of the pixel.
        const Point from_a = {x * kPixel + kPixel / 2 - a.x, y * kPixel + kPixel / 2 - a.y};
        const int64_t foot =
            std::clamp<int64_t>(from_a.x * along.x + from_a.y * along.y, 0, length2);
        const Point off = {from_a.x - along.x * foot / length2,
                           from_a.y - along.y * foot / length2};
        const int64_t distance2 = off.x * off.x + off.y * off.y;
        const int64_t cover = std::clamp<int64_t>(
            (reach * reach - distance2) * ink / (reach * reach - core * core), 0, ink);
        uint8_t& pixel = pixels_[static_cast<size_t>(y * kImageSide + x)];
        pixel = std::max(pixel, static_cast<uint8_t>(cover));
      }
    }
  }

  // Adds a random value from -amplitude to amplitude to each pixel.
  void add_noise(int64_t amplitude, Random& random) {
    uint64_t bits = 0;
    for (size_t i = 0; i < pixels_.size(); ++i) {
      bits = i % 8 == 0 ? random.next() : bits >> 8;
      const int64_t noise = (static_cast<int64_t>(bits & 0xff) - 128) * amplitude / 128;
      pixels_[i] = static_cast<uint8_t>(std::clamp<int64_t>(pixels_[i] + noise, 0, kFullInk));
    }
  }

 private:
  static int64_t clamp_pixel(int64_t at) { return std::clamp<int64_t>(at, 0, kImageSide - 1); }

  std::span<uint8_t> pixels_;
};

void draw_stroke(Canvas& canvas, const Stroke& stroke, const Hand& hand, Random& random) {
  std::vector<Point> line;
  for (const Point point : stroke.points) {
    const int64_t x = (point.x - 50 + random.between(-hand.tremor, hand.tremor)) * kBox * kPixel;
    const int64_t y = (point.y - 50 + random.between(-hand.tremor, hand.tremor)) * kBox * kPixel;
    const auto& m = hand.matrix;
    line.push_back({hand.centre.x + (m[0] * x + m[1] * y) / (100 * kOne),
                    hand.centre.y + (m[2] * x + m[3] * y) / (100 * kOne)});
  }
  if (stroke.kind != Stroke::Kind::Straight) {
    line = smooth(std::move(line), stroke.kind == Stroke::Kind::Loop);
  }
  for (size_t i = 1; i < line.size(); ++i) {
    canvas.draw(line[i - 1], line[i], hand.pen, hand.ink);
  }
  if (stroke.kind == Stroke::Kind::Loop) {
    canvas.draw(line.back(), line.front(), hand.pen, hand.ink);
  }
}

// A short stroke at a random position, in one of four images.
void draw_scratch(Canvas& canvas, const Hand& hand, Random& random) {
  if (random.below(4) != 0) {
    return;
  }
  constexpr int64_t kWidth = kImageSide * kPixel;
  constexpr int64_t kLongest = 5 * kPixel;
  const Point a = {random.between(0, kWidth), random.between(0, kWidth)};
  const Point b = {a.x + random.between(-kLongest, kLongest),
                   a.y + random.between(-kLongest, kLongest)};
  canvas.draw(a, b, hand.pen, hand.ink);
}

// Draws into `pixels`, which must be zero, and returns the digit.
uint8_t draw_digit(std::span<uint8_t> pixels, Random random) {
  const auto digit = random.below(kClasses);
  const std::span<const Glyph> styles = glyphs(digit);
  const Glyph& glyph = styles[random.below(styles.size())];
  const Hand hand = choose_hand(random);
  Canvas canvas(pixels);
  for (const Stroke& stroke : glyph) {
    draw_stroke(canvas, stroke, hand, random);
  }
  draw_scratch(canvas, hand, random);
  canvas.add_noise(hand.noise, random);
  return static_cast<uint8_t>(digit);
}

}  // namespace

LabelledImages draw_digits(int64_t count, uint64_t seed, uint64_t stream) {
  std::vector<uint8_t> pixels(static_cast<size_t>(count * kImagePixels));
  std::vector<uint8_t> labels(static_cast<size_t>(count));
  // Each image has a random stream of its own, so that image i is the same in data sets of any
  // size.
  const uint64_t first = Random(seed, stream).next();
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto image = std::span(pixels).subspan(i * kImagePixels, kImagePixels);
    labels[i] = draw_digit(image, Random(first, i));
  }
  return {own_bytes(std::move(pixels)), own_bytes(std::move(labels))};
}

}  // namespace lockstep::data

namespace lockstep {

DatasetPair generated_digits(int64_t train_count, int64_t test_count, uint64_t seed) {
  if (train_count < 1 || test_count < 1) {
    throw Error(ExitCode::Usage, "cannot generate an empty data set")
        .fact("train", std::to_string(train_count))
        .fact("test", std::to_string(test_count));
  }
  enum Stream : uint64_t { kTrain, kTest };
  return {data::byte_images(data::draw_digits(train_count, seed, kTrain)),
          data::byte_images(data::draw_digits(test_count, seed, kTest)),
          fmt::format("generated digits, seed {}", seed)};
}

}  // namespace lockstep
