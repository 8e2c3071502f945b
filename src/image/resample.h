// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::image {

// Which source pixels make one output pixel, along one edge: a triangle over the source, as wide as
// the scale asks for (antialiased bilinear, as Pillow and torchvision do it).
class Axis {
 public:
  // Weights are whole numbers that sum up to this.
  static constexpr int kOne = 4096;

  // `outputs` pixels from the interval [begin, end) of the source, of which only pixels from
  // `lowest` up to, not including, `highest` are looked at.
  struct Plan {
    double begin = 0;
    double end = 0;
    int lowest = 0;
    int highest = 0;
    int outputs = 0;
  };
  void prepare(const Plan& plan);

  int outputs() const { return static_cast<int>(first_.size()); }
  int taps() const { return taps_; }  // weights of each output; the last may be 0
  int first(int output) const { return first_[static_cast<size_t>(output)]; }
  int count(int output) const { return count_[static_cast<size_t>(output)]; }
  const int16_t* weights(int output) const {
    return weights_.data() + static_cast<size_t>(output) * static_cast<size_t>(taps_);
  }

  // The source pixels that are needed at all.
  int lowest() const { return lowest_; }
  int highest() const { return highest_; }

 private:
  int taps_ = 0;
  int lowest_ = 0;
  int highest_ = 0;
  std::vector<int> first_;
  std::vector<int> count_;
  std::vector<int16_t> weights_;
  std::vector<double> exact_;
};

// Makes output rows of RGB from source rows of RGBX. All arithmetic is in whole numbers, also where
// they are kept as floats, so that all machines give the same pixels.
class Resampler {
 public:
  // Columns are counted as `columns` counts them; rows given to write() begin at column `left` and
  // have `width` pixels.
  void prepare(const Axis& columns, int left, int width);

  // Blends `count` source rows by `weights` and writes one output row.
  void write(const uint8_t* const* rows,
             const int16_t* weights,
             int count,
             uint8_t* output,
             int64_t column_step);

 private:
  int taps_ = 0;
  std::vector<int64_t> offsets_;  // of the first value of each output
  std::vector<float> weights_;
  std::vector<int32_t> sums_;  // of a source row, value by value
  std::vector<float> blended_;
};

}  // namespace lockstep::image
