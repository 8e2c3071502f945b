// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fmt/format.h>

#include "common/base/random.h"
#include "common/image/drawn.h"

namespace lockstep::image {
namespace {

constexpr int kShapes = 10;
constexpr int kTextures = 4;
constexpr int kHues = 5;
static_assert(kShapes * kTextures * kHues == kMaxDrawnClasses);
constexpr double kPi = 3.14159265358979323846;

constexpr std::array kShapeNames = {"disc",
                                    "square",
                                    "triangle",
                                    "ring",
                                    "cross",
                                    "star",
                                    "diamond",
                                    "grille",
                                    "half disc",
                                    "four dots"};
constexpr std::array kTextureNames = {"plain", "striped", "chequered", "shaded"};
constexpr std::array kHueNames = {"red", "yellow", "green", "blue", "purple"};

// The attributes of a class. Consecutive classes differ in all three, so that a small number of
// classes is easy to learn. Classes with equal shape and texture differ in colour.
struct Kind {
  int shape = 0;
  int texture = 0;
  int hue = 0;
};

Kind kind_of(int drawn_class) {
  const int turn = drawn_class / kShapes;
  return {.shape = drawn_class % kShapes,
          .texture = (turn + drawn_class) % kTextures,
          .hue = (turn / kTextures + drawn_class) % kHues};
}

double uniform(Random& random, double minimum, double maximum) {
  return minimum + (maximum - minimum) * (static_cast<double>(random.next() >> 11) * 0x1p-53);
}

using Colour = std::array<double, 3>;

// `hue` in turns: 1 is a full circle.
Colour colour_of(double hue, double saturation, double value) {
  Colour colour = {};
  for (size_t c = 0; c < 3; ++c) {
    const double k = std::fmod(hue * 6 + 5 - 2 * static_cast<double>(c) + 12, 6.0);
    colour[c] = 255 * value * (1 - saturation * std::clamp(std::min(k, 4 - k), 0.0, 1.0));
  }
  return colour;
}

// The largest projection on the normals of the three edges.
double triangle(double u, double v) {
  double maximum = -1;
  for (const double angle : {kPi / 2, kPi * 7 / 6, kPi * 11 / 6}) {
    maximum = std::max(maximum, std::cos(angle) * u + std::sin(angle) * v);
  }
  return 2 * maximum;
}

double four_dots(double u, double v) {
  return std::hypot(std::abs(u) - 0.55, std::abs(v) - 0.55) / 0.4;
}

double grille(double u, double v) {
  const double bar = std::min(std::abs(u), std::abs(std::abs(u) - 0.75));
  return std::max(bar / 0.2, std::abs(v));
}

// A value below 1 inside a shape of radius 1 around the origin.
double outline(int shape, double u, double v) {
  const double radius = std::hypot(u, v);
  const double a = std::abs(u);
  const double b = std::abs(v);
  switch (shape) {
    case 0:
      return radius;
    case 1:
      return std::max(a, b) * 1.15;
    case 2:
      return triangle(u, v);
    case 3:
      return std::abs(radius - 0.72) / 0.28;
    case 4:
      return std::min(std::max(a, 3 * b), std::max(3 * a, b));
    case 5:
      return radius / (0.64 + 0.36 * std::cos(5 * std::atan2(u, v)));
    case 6:
      return 1.8 * a + b;
    case 7:
      return grille(u, v);
    case 8:
      return std::max(radius, 1 - 3 * (v + 0.1));
    default:
      return four_dots(u, v);
  }
}

// Brightness of a texture at a position; the mean is about 1.
double texture_at(int texture, double u, double v) {
  switch (texture) {
    case 1:
      return std::sin(u * 12 + v * 6) > 0 ? 1.15 : 0.45;
    case 2:
      return (std::sin(u * 9) > 0) == (std::sin(v * 9) > 0) ? 1.2 : 0.5;
    case 3:
      return 0.85 + 0.45 * u;
    default:
      return 1;
  }
}

// A background of slowly and unevenly changing colours.
class Backdrop {
 public:
  explicit Backdrop(Random& random) {
    const Colour middle =
        colour_of(uniform(random, 0, 1), uniform(random, 0, 0.5), uniform(random, 0.25, 0.9));
    for (auto& knot : knots_) {
      const double light = uniform(random, -45, 45);
      for (size_t c = 0; c < 3; ++c) {
        knot[c] = middle[c] + light + uniform(random, -20, 20);
      }
    }
  }

  // The colour at a position; both coordinates are 0 to 1.
  Colour at(double x, double y) const {
    const double u = x * (kSide - 1);
    const double v = y * (kSide - 1);
    const auto i = static_cast<size_t>(u);
    const auto j = static_cast<size_t>(v);
    const double s = u - static_cast<double>(i);
    const double t = v - static_cast<double>(j);
    Colour colour = {};
    for (size_t c = 0; c < 3; ++c) {
      colour[c] = (knot(i, j)[c] * (1 - s) + knot(i + 1, j)[c] * s) * (1 - t) +
                  (knot(i, j + 1)[c] * (1 - s) + knot(i + 1, j + 1)[c] * s) * t;
    }
    return colour;
  }

 private:
  static constexpr size_t kSide = 9;
  const Colour& knot(size_t i, size_t j) const { return knots_[j * kSide + i]; }
  std::array<Colour, kSide* kSide> knots_ = {};
};

// Position and appearance of the shape in one image.
struct Scene {
  Kind kind;
  double x = 0;  // of the centre, in pixels
  double y = 0;
  double radius = 0;
  double turn = 0;
  Colour colour = {};
  double noise = 0;
};

Scene choose_scene(const Kind& kind, Size size, Random& random) {
  const double shorter = std::min(size.width, size.height);
  Scene scene;
  scene.kind = kind;
  scene.radius = shorter * uniform(random, 0.2, 0.42);
  const double room = scene.radius * 0.9;
  scene.x = uniform(random, room, size.width - room);
  scene.y = uniform(random, room, size.height - room);
  scene.turn = uniform(random, -0.35, 0.35);
  const double hue = kind.hue / static_cast<double>(kHues) + uniform(random, -0.09, 0.09);
  scene.colour = colour_of(hue + 1, uniform(random, 0.45, 1), uniform(random, 0.5, 1));
  // Noise replaces the fine detail of photographs of this size.
  scene.noise = uniform(random, 6, 24) * (shorter > 128 ? 2 : 1);
  return scene;
}

uint8_t level(double value) {
  return static_cast<uint8_t>(std::clamp(value, 0.0, 255.0));
}

void paint(
    const Scene& scene, const Backdrop& backdrop, Size size, Random& random, uint8_t* pixel) {
  const double cosine = std::cos(scene.turn) / scene.radius;
  const double sine = std::sin(scene.turn) / scene.radius;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      const double dx = x + 0.5 - scene.x;
      const double dy = y + 0.5 - scene.y;
      const double u = cosine * dx + sine * dy;
      const double v = cosine * dy - sine * dx;
      // The edge fades over about one pixel.
      const double cover =
          std::clamp((1 - outline(scene.kind.shape, u, v)) * scene.radius * 0.7 + 0.5, 0.0, 1.0);
      const Colour behind = backdrop.at((x + 0.5) / size.width, (y + 0.5) / size.height);
      const double light = texture_at(scene.kind.texture, u, v);
      const uint64_t drawn = random.next();
      for (size_t c = 0; c < 3; ++c) {
        // Most of the noise is in brightness, as in a camera.
        const auto shared = static_cast<double>(drawn & 0xffffU);
        const auto own = static_cast<double>((drawn >> (16 * (c + 1))) & 0xffffU);
        const double noise = (0.8 * shared + 0.2 * own) / 32768.0 - 1;
        *pixel++ =
            level(behind[c] * (1 - cover) + scene.colour[c] * light * cover + noise * scene.noise);
      }
    }
  }
}

Region box_of(const Scene& scene, Size size) {
  const int left = std::clamp(static_cast<int>(scene.x - scene.radius), 0, size.width - 1);
  const int top = std::clamp(static_cast<int>(scene.y - scene.radius), 0, size.height - 1);
  const int right = std::clamp(static_cast<int>(scene.x + scene.radius), left, size.width - 1);
  const int bottom = std::clamp(static_cast<int>(scene.y + scene.radius), top, size.height - 1);
  return {.left = left, .top = top, .width = right - left, .height = bottom - top};
}

}  // namespace

Drawing draw(int drawn_class, uint64_t number, uint64_t seed, Size size) {
  Random random(seed, number * kMaxDrawnClasses + static_cast<uint64_t>(drawn_class));
  const Scene scene = choose_scene(kind_of(drawn_class), size, random);
  const Backdrop backdrop(random);
  Drawing drawing;
  drawing.pixels.resize(static_cast<size_t>(size.width) * static_cast<size_t>(size.height) * 3);
  paint(scene, backdrop, size, random, drawing.pixels.data());
  drawing.box = box_of(scene, size);
  return drawing;
}

ClassName name_of_drawn(int drawn_class) {
  const Kind kind = kind_of(drawn_class);
  return {.id = fmt::format("n9{:07}", drawn_class),
          .words = fmt::format("{} {} {}",
                               kTextureNames.at(static_cast<size_t>(kind.texture)),
                               kHueNames.at(static_cast<size_t>(kind.hue)),
                               kShapeNames.at(static_cast<size_t>(kind.shape)))};
}

}  // namespace lockstep::image
