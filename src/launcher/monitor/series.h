// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::monitor {

// The step of a value whose source, such as an agent, does not know it. The store looks it up.
inline constexpr int64_t kStepUnknown = -1;

// One value of a series, or several neighbouring values merged into one point.
struct Point {
  double time = 0;   // of the last of them, in seconds since the epoch
  int64_t step = 0;  // of the last of them
  double mean = 0;   // of the values that are not NaN; NaN if all are
  double low = 0;
  double high = 0;

  bool operator==(const Point&) const = default;
};

// A curve of any length in bounded memory. When it is full, each pair of neighbouring points is
// merged into one, which halves the resolution over the whole length. A point keeps the minimum and
// maximum of its values, so no peak is lost.
class Series {
 public:
  explicit Series(size_t capacity = kUsualCapacity);

  // Times must not decrease; a value may be NaN.
  void add(double time, int64_t step, double value);

  // The values from `from` to `to` in order of time, merged into at most `max_points` points.
  std::vector<Point> points(double from, double to, size_t max_points) const;

  // The step of the last point that is not after `time`; nothing before the first point.
  std::optional<int64_t> find_step(double time) const;

  // From now on, additionally keeps every value at full resolution until take_news() returns it.
  void keep_news() { keeps_news_ = true; }
  std::vector<Point> take_news() { return std::exchange(news_, {}); }

  int64_t count() const { return count_; }  // number of values added
  size_t size() const { return buckets_.size(); }

  static constexpr size_t kUsualCapacity = 2048;

 private:
  struct Bucket {
    Point point;
    int64_t values = 0;   // number of values
    int64_t numbers = 0;  // number of values that are not NaN
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
