// SPDX-License-Identifier: Apache-2.0
#include "common/image/resample.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <numeric>
#include <vector>

#include "common/base/random.h"

namespace lockstep::image {
namespace {

struct Case {
  int width;  // of the source
  Axis::Plan plan;
};

// The weights of the antialiased bilinear filter of Pillow, in double.
double reference(const std::vector<uint8_t>& row, const Axis::Plan& plan, int output, int channel) {
  const double scale = (plan.end - plan.begin) / plan.outputs;
  const double reach = std::max(scale, 1.0);
  const double centre = plan.begin + (output + 0.5) * scale;
  double sum = 0;
  double total = 0;
  const int first = std::max(plan.lowest, static_cast<int>(centre - reach) - 1);
  const int end = std::min(plan.highest, static_cast<int>(centre + reach) + 2);
  for (int i = first; i < end; ++i) {
    const double weight = std::max(0.0, 1 - std::abs(i + 0.5 - centre) / reach);
    sum += weight * row[static_cast<size_t>(i * 4 + channel)];
    total += weight;
  }
  return sum / total;
}

std::vector<uint8_t> noise(int width) {
  Random random(1, 2);
  std::vector<uint8_t> row(static_cast<size_t>(width) * 4);
  for (uint8_t& value : row) {
    value = static_cast<uint8_t>(random.below(2) * 255);  // maximum contrast
  }
  return row;
}

// Tolerance in levels: the rounding errors of hundreds of integer weights add up.
double bound_of(const Axis::Plan& plan) {
  return (plan.end - plan.begin) / plan.outputs > 100 ? 2 : 1;
}

std::vector<Case> cases() {
  return {{500, {.begin = 0, .end = 500, .lowest = 0, .highest = 500, .outputs = 224}},
          {300, {.begin = 20, .end = 260, .lowest = 20, .highest = 260, .outputs = 224}},
          {300, {.begin = 33.4, .end = 260.9, .lowest = 0, .highest = 300, .outputs = 224}},
          {64, {.begin = 0, .end = 64, .lowest = 0, .highest = 64, .outputs = 64}},
          {50, {.begin = 10, .end = 30, .lowest = 10, .highest = 30, .outputs = 224}},
          {1, {.begin = 0, .end = 1, .lowest = 0, .highest = 1, .outputs = 224}},
          {3, {.begin = 1, .end = 2, .lowest = 1, .highest = 2, .outputs = 7}},
          {4000, {.begin = 0, .end = 4000, .lowest = 0, .highest = 4000, .outputs = 32}},
          {65500, {.begin = 0, .end = 65500, .lowest = 0, .highest = 65500, .outputs = 224}}};
}

TEST(Resampler, IsWithinALevelOfTheFilterComputedPlainlyAcross) {
  for (const auto& [width, plan] : cases()) {
    SCOPED_TRACE(fmt::format("{} pixels to {}", width, plan.outputs));
    const std::vector<uint8_t> row = noise(width);
    const uint8_t* rows = row.data();
    const int16_t weight = Axis::kOne;
    std::vector<uint8_t> output(static_cast<size_t>(plan.outputs) * 3);

    Axis axis;
    axis.prepare(plan);
    Resampler resampler;
    resampler.prepare(axis, 0, width);
    resampler.write(&rows, &weight, 1, output.data(), 3);

    for (int i = 0; i < plan.outputs; ++i) {
      for (int c = 0; c < 3; ++c) {
        EXPECT_NEAR(
            output[static_cast<size_t>(i * 3 + c)], reference(row, plan, i, c), bound_of(plan))
            << i;
      }
    }
  }
}

TEST(Resampler, IsWithinALevelOfTheFilterComputedPlainlyDown) {
  for (const auto& [height, plan] : cases()) {
    SCOPED_TRACE(fmt::format("{} pixels to {}", height, plan.outputs));
    // A column of one pixel.
    const std::vector<uint8_t> column = noise(height);
    Axis across;
    across.prepare({.begin = 0, .end = 1, .lowest = 0, .highest = 1, .outputs = 1});
    Axis down;
    down.prepare(plan);
    Resampler resampler;
    resampler.prepare(across, 0, 1);

    for (int i = 0; i < plan.outputs; ++i) {
      std::vector<const uint8_t*> rows;
      for (int k = 0; k < down.count(i); ++k) {
        rows.push_back(column.data() + static_cast<ptrdiff_t>(down.first(i) + k) * 4);
      }
      std::vector<uint8_t> output(3);
      resampler.write(rows.data(), down.weights(i), down.count(i), output.data(), 3);
      for (int c = 0; c < 3; ++c) {
        EXPECT_NEAR(output[static_cast<size_t>(c)], reference(column, plan, i, c), bound_of(plan))
            << i;
      }
    }
  }
}

TEST(Resampler, LeavesAFlatColourAsItIs) {
  for (const int level : {0, 1, 127, 254, 255}) {
    const std::vector<uint8_t> row(4 * 333, static_cast<uint8_t>(level));
    const std::vector<const uint8_t*> rows(9, row.data());
    Axis axis;
    axis.prepare({.begin = 3.3, .end = 331.7, .lowest = 0, .highest = 333, .outputs = 100});
    Axis down;
    down.prepare({.begin = 0, .end = 9, .lowest = 0, .highest = 9, .outputs = 2});
    Resampler resampler;
    resampler.prepare(axis, 0, 333);
    std::vector<uint8_t> output(300);
    resampler.write(rows.data(), down.weights(0), down.count(0), output.data(), 3);

    EXPECT_THAT(output, ::testing::Each(level));
  }
}

TEST(Resampler, StaysWithinTheLevelsWhateverTheWeights) {
  const std::vector<uint8_t> black(4, 0);
  const std::vector<uint8_t> white(4, 255);
  const std::vector<const uint8_t*> rows = {black.data(), white.data()};
  Axis axis;
  axis.prepare({.begin = 0, .end = 1, .lowest = 0, .highest = 1, .outputs = 1});
  Resampler resampler;
  resampler.prepare(axis, 0, 1);
  std::vector<uint8_t> output(3);

  const std::vector<int16_t> above = {-300, Axis::kOne + 300};
  resampler.write(rows.data(), above.data(), 2, output.data(), 3);
  EXPECT_THAT(output, ::testing::Each(255));

  const std::vector<int16_t> below = {Axis::kOne + 300, -300};
  resampler.write(rows.data(), below.data(), 2, output.data(), 3);
  EXPECT_THAT(output, ::testing::Each(0));
}

TEST(Axis, SpreadsItsSumEvenlyOverMorePixelsThanItHasParts) {
  Axis axis;
  axis.prepare({.begin = 0, .end = 65500, .lowest = 0, .highest = 65500, .outputs = 5});
  const int16_t* weights = axis.weights(2);
  const int count = axis.count(2);

  EXPECT_EQ(count, 26200);
  EXPECT_LE(*std::max_element(weights, weights + count), 1);
  EXPECT_NEAR(std::accumulate(weights, weights + count / 2, 0), Axis::kOne / 2, 1);
}

TEST(Axis, NeverLooksBeyondItsLimits) {
  for (const auto& [width, plan] : cases()) {
    Axis axis;
    axis.prepare(plan);
    for (int i = 0; i < plan.outputs; ++i) {
      EXPECT_GE(axis.first(i), plan.lowest);
      EXPECT_LE(axis.first(i) + axis.count(i), plan.highest);
      int sum = 0;
      for (int k = 0; k < axis.taps(); ++k) {
        EXPECT_GE(axis.weights(i)[k], 0);
        sum += axis.weights(i)[k];
      }
      EXPECT_EQ(sum, Axis::kOne);
    }
  }
}

}  // namespace
}  // namespace lockstep::image
