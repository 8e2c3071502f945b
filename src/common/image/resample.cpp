// SPDX-License-Identifier: Apache-2.0
#include "common/image/resample.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>

namespace lockstep::image {
namespace {

constexpr size_t kChannels = 4;

// Integers in a float are exact up to 2^24. A blended value has 8 + 4 bits and the weights sum up
// to 2^12, so every sum below is exact in any order.
constexpr int kKeptBits = 4;
constexpr int kWeightBits = 12;
static_assert(Axis::kOne == 1 << kWeightBits);

// Compiles a version for AVX2 and one for other x86-64 processors; the loader selects one at run
// time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LOCKSTEP_FOR_ALL_PROCESSORS __attribute__((target_clones("avx2", "default")))
#else
#define LOCKSTEP_FOR_ALL_PROCESSORS
#endif

// The four channels of a pixel, as a vector type of GCC and clang.
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// sums = (or +=) weights[0] * rows[0] + ... over kRows rows.
template <int kRows, bool kAdds>
[[gnu::always_inline]] inline void add_rows(const uint8_t* const* rows,
                                            const int16_t* weights,
                                            size_t values,
                                            int32_t* __restrict sums) {
  const uint8_t* row[kRows];  // NOLINT(modernize-avoid-c-arrays): in registers
  int16_t weight[kRows];      // NOLINT(modernize-avoid-c-arrays)
  for (int k = 0; k < kRows; ++k) {
    row[k] = rows[k];
    weight[k] = weights[k];
  }
  for (size_t i = 0; i < values; ++i) {
    int32_t sum = kAdds ? sums[i] : 0;
    for (int k = 0; k < kRows; ++k) {
      sum += weight[k] * static_cast<int16_t>(row[k][i]);
    }
    sums[i] = sum;
  }
}

template <bool kAdds>
[[gnu::always_inline]] inline void add_some_rows(
    const uint8_t* const* rows, const int16_t* weights, int count, size_t values, int32_t* sums) {
  switch (count) {
    case 1:
      return add_rows<1, kAdds>(rows, weights, values, sums);
    case 2:
      return add_rows<2, kAdds>(rows, weights, values, sums);
    case 3:
      return add_rows<3, kAdds>(rows, weights, values, sums);
    default:
      return add_rows<4, kAdds>(rows, weights, values, sums);
  }
}

// The weighted sum of the rows, with kKeptBits fractional bits.
LOCKSTEP_FOR_ALL_PROCESSORS
void blend_rows(const uint8_t* const* rows,
                const int16_t* weights,
                int count,
                std::span<int32_t> scratch,
                float* __restrict blended) {
  const size_t values = scratch.size();
  int32_t* __restrict sums = scratch.data();
  add_some_rows<false>(rows, weights, std::min(count, 4), values, sums);
  for (int k = 4; k < count; k += 4) {
    add_some_rows<true>(rows + k, weights + k, std::min(count - k, 4), values, sums);
  }
  constexpr int kDropped = kWeightBits - kKeptBits;
  for (size_t i = 0; i < values; ++i) {
    blended[i] = static_cast<float>((sums[i] + (1 << (kDropped - 1))) >> kDropped);
  }
}

// Converts exact weights to integers with the sum kOne. The rounding error of each weight is
// carried to the next, so that none is negative and each is off by less than 1, for any number of
// weights.
void round_weights(const std::vector<double>& exact, int count, int16_t* weights) {
  double total = 0;
  for (int k = 0; k < count; ++k) {
    total += exact[static_cast<size_t>(k)];
  }
  double sum = 0;
  long given = 0;
  for (int k = 0; k < count; ++k) {
    sum += exact[static_cast<size_t>(k)];
    const long upto = std::lround(sum / total * Axis::kOne);
    weights[k] = static_cast<int16_t>(upto - given);
    given = upto;
  }
}

// Clamps a value to the range of a byte.
uint8_t to_level(int32_t value) {
  return static_cast<uint8_t>(std::clamp(value, 0, 255));
}

}  // namespace

// The filter is a triangle of half width `reach`: the scale when reducing, one pixel when
// enlarging. It covers at most 2 * ceil(reach) + 1 pixels. Weights of at least 1e-9 keep the sum
// positive when all pixels but one are outside the limits.
void Axis::prepare(const Plan& plan) {
  const double scale = (plan.end - plan.begin) / plan.outputs;
  const double reach = std::max(scale, 1.0);
  taps_ = static_cast<int>(std::ceil(reach)) * 2 + 1;
  const auto outputs = static_cast<size_t>(plan.outputs);
  first_.resize(outputs);
  count_.resize(outputs);
  weights_.assign(outputs * static_cast<size_t>(taps_), 0);
  exact_.resize(static_cast<size_t>(taps_));
  lowest_ = plan.highest;
  highest_ = plan.lowest;
  for (size_t i = 0; i < outputs; ++i) {
    const double centre = plan.begin + (static_cast<double>(i) + 0.5) * scale;
    const int first = std::clamp(
        static_cast<int>(std::floor(centre - reach + 0.5)), plan.lowest, plan.highest - 1);
    const int end =
        std::clamp(static_cast<int>(std::floor(centre + reach + 0.5)), first + 1, plan.highest);
    const int count = std::min(end - first, taps_);
    for (int k = 0; k < count; ++k) {
      const double distance = std::abs(first + k + 0.5 - centre) / reach;
      exact_[static_cast<size_t>(k)] = std::max(1 - distance, 1e-9);
    }
    round_weights(exact_, count, weights_.data() + i * static_cast<size_t>(taps_));
    first_[i] = first;
    count_[i] = count;
    lowest_ = std::min(lowest_, first);
    highest_ = std::max(highest_, first + count);
  }
}

void Resampler::prepare(const Axis& columns, int left, int width) {
  taps_ = 0;
  for (int i = 0; i < columns.outputs(); ++i) {
    taps_ = std::max(taps_, columns.count(i));
  }
  const auto taps = static_cast<size_t>(taps_);
  const size_t values = static_cast<size_t>(width) * kChannels;
  sums_.resize(values);
  // Padding: taps with weight 0 can read past the end of the row.
  blended_.assign(values + taps * kChannels, 0);
  offsets_.clear();
  weights_.clear();
  for (int i = 0; i < columns.outputs(); ++i) {
    offsets_.push_back((columns.first(i) - left) * static_cast<int64_t>(kChannels));
    weights_.insert(weights_.end(), columns.weights(i), columns.weights(i) + taps_);
  }
}

// Vertical pass first: its result is one row, which stays in the cache for the horizontal pass. The
// vertical sums have 8 + 12 bits, are rounded to 8 + 4 bits, and are then weighted with 12 bits
// again.
void Resampler::write(const uint8_t* const* rows,
                      const int16_t* weights,
                      int count,
                      uint8_t* output,
                      int64_t column_step) {
  blend_rows(rows, weights, count, sums_, blended_.data());
  const float* weight = weights_.data();
  for (const int64_t offset : offsets_) {
    const float* source = blended_.data() + offset;
    Floats sum = {};
    for (int k = 0; k < taps_; ++k) {
      sum += load(source + static_cast<size_t>(k) * kChannels) * weight[k];
    }
    weight += taps_;
    constexpr int kShift = kKeptBits + kWeightBits;
    const Ints level = (__builtin_convertvector(sum, Ints) + (1 << (kShift - 1))) >> kShift;
    output[0] = to_level(level[0]);
    output[1] = to_level(level[1]);
    output[2] = to_level(level[2]);
    output += column_step;
  }
}

}  // namespace lockstep::image
