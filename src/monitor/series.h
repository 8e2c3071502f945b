// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::monitor {

// Of what somebody tells who does not know the step, as an agent: the store then looks it up.
inline constexpr int64_t kStepUnknown = -1;

// Some neighbouring values of a series, or one.
struct Point {
  double time = 0;   // of the last of them, in seconds since the epoch
  int64_t step = 0;  // of the last of them
  double mean = 0;   // of those that are numbers; NaN: none is
  double low = 0;
  double high = 0;

  bool operator==(const Point&) const = default;
};

// A curve in bounded memory, however long it grows: when it is full, neighbours become one, so that
// it has half the resolution over its whole length, and no peak is lost.
class Series {
 public:
  explicit Series(size_t capacity = kUsualCapacity);

  // Times do not go back; a value may be NaN.
  void add(double time, int64_t step, double value);

  // What happened from `from` to `to`, as `most_points` points at most, in order of time.
  std::vector<Point> points(double from, double to, size_t most_points) const;

  // The step of the last point that is not after `time`; nothing before the first one.
  std::optional<int64_t> find_step(double time) const;

  // From now on every value is also kept as it is until take_news() asks for it.
  void keep_news() { keeps_news_ = true; }
  std::vector<Point> take_news() { return std::exchange(news_, {}); }

  int64_t count() const { return count_; }  // values that were added
  size_t size() const { return buckets_.size(); }

  static constexpr size_t kUsualCapacity = 2048;

 private:
  struct Bucket {
    Point point;
    int64_t values = 0;   // added
    int64_t numbers = 0;  // of those
  };
  static void merge(Bucket& into, const Bucket& later);
  void halve();

  size_t capacity_;
  int64_t stride_ = 1;  // values in a full bucket
  int64_t count_ = 0;
  std::vector<Bucket> buckets_;
  bool keeps_news_ = false;
  std::vector<Point> news_;
};

}  // namespace lockstep::monitor
