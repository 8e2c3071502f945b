// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::image {

// The source pixels and weights of each output pixel along one edge: a triangle filter whose width
// follows the scale (antialiased bilinear, as in Pillow and torchvision).
class Axis {
 public:
  // Weights are integers with this sum.
  static constexpr int kOne = 4096;

  // Maps the interval [begin, end) of the source to `outputs` pixels. Only the source pixels
  // [lowest, highest) are used.
  struct Plan {
    double begin = 0;
    double end = 0;
    int lowest = 0;
    int highest = 0;
    int outputs = 0;
  };
  void prepare(const Plan& plan);

  int outputs() const { return static_cast<int>(first_.size()); }
  int taps() const { return taps_; }  // weights per output; the last ones can be 0
  int first(int output) const { return first_[static_cast<size_t>(output)]; }
  int count(int output) const { return count_[static_cast<size_t>(output)]; }
  const int16_t* weights(int output) const {
    return weights_.data() + static_cast<size_t>(output) * static_cast<size_t>(taps_);
  }

  // The range of source pixels that is needed.
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

// Computes output rows of RGB from source rows of RGBX. All values are integers, also those in
// floats, so that all machines give identical pixels.
class Resampler {
 public:
  // Rows passed to write() begin at column `left`, in the numbering of `columns`, and have `width`
  // pixels.
  void prepare(const Axis& columns, int left, int width);

  // Blends `count` source rows by `weights` and writes one output row.
  void write(const uint8_t* const* rows,
             const int16_t* weights,
             int count,
             uint8_t* output,
             int64_t column_step);

 private:
  int taps_ = 0;
  std::vector<int64_t> offsets_;  // offset of the first value of each output
  std::vector<float> weights_;
  std::vector<int32_t> sums_;  // weighted sums of the source rows
  std::vector<float> blended_;
};

}  // namespace lockstep::image
