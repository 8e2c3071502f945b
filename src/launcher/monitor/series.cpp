// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/series.h"

#include <algorithm>
#include <cmath>

// Example with a capacity of 4. A bucket has `stride_` values, except the last one, which can be
// partly filled:
//
//   values 1 2 3 4         stride 1   [1] [2] [3] [4]
//   value 5: halve()       stride 2   [1 2] [3 4]
//            then add                 [1 2] [3 4] [5]
//   value 6                           [1 2] [3 4] [5 6]
//
// A series that has seen n values has between capacity / 2 and capacity buckets, and add() costs
// O(1) amortized: halve() runs after each doubling of n.
namespace lockstep::monitor {
namespace {

constexpr size_t kMinCapacity = 4;

}  // namespace

Series::Series(size_t capacity) : capacity_(std::max(capacity, kMinCapacity)) {}

void Series::add(double time, int64_t step, double value) {
  const Bucket one{
      .point = {.time = time, .step = step, .mean = value, .low = value, .high = value},
      .values = 1,
      .numbers = std::isnan(value) ? 0 : 1};
  ++count_;
  if (keeps_news_) {
    news_.push_back(one.point);
  }
  if (!buckets_.empty() && buckets_.back().values < stride_) {
    merge(buckets_.back(), one);
    return;
  }
  if (buckets_.size() >= capacity_) {
    halve();
  }
  // Halving an odd number of buckets leaves a last one that is only half full.
  if (!buckets_.empty() && buckets_.back().values < stride_) {
    merge(buckets_.back(), one);
  } else {
    buckets_.push_back(one);
  }
}

// The mean is updated incrementally and weighted by the number of values, so that it stays exact
// when buckets of different fill are merged, and does not overflow for large sums. NaN values count
// for the stride, because a bucket covers a range of time, but not for the mean.
void Series::merge(Bucket& into, const Bucket& later) {
  Point& point = into.point;
  point.time = later.point.time;
  point.step = later.point.step;
  if (into.numbers == 0) {
    point.mean = later.point.mean;
    point.low = later.point.low;
    point.high = later.point.high;
  } else if (later.numbers > 0) {
    const auto numbers = static_cast<double>(into.numbers + later.numbers);
    point.mean += (later.point.mean - point.mean) * (static_cast<double>(later.numbers) / numbers);
    point.low = std::min(point.low, later.point.low);
    point.high = std::max(point.high, later.point.high);
  }
  into.values += later.values;
  into.numbers += later.numbers;
}

void Series::halve() {
  size_t kept = 0;
  for (size_t i = 0; i < buckets_.size(); i += 2, ++kept) {
    Bucket pair = buckets_[i];
    if (i + 1 < buckets_.size()) {
      merge(pair, buckets_[i + 1]);
    }
    buckets_[kept] = pair;
  }
  buckets_.resize(kept);
  stride_ *= 2;
}

// Groups of equal size are merged: rounding up `together` guarantees at most `max_points` groups.
std::vector<Point> Series::points(double from, double to, size_t max_points) const {
  const auto first = std::find_if(buckets_.begin(), buckets_.end(), [from](const Bucket& bucket) {
    return bucket.point.time >= from;
  });
  const auto last = std::find_if(
      first, buckets_.end(), [to](const Bucket& bucket) { return bucket.point.time > to; });
  const auto found = static_cast<size_t>(last - first);
  if (found == 0 || max_points == 0) {
    return {};
  }
  const size_t together = (found - 1) / max_points + 1;
  std::vector<Point> points;
  points.reserve(found / together + 1);
  for (size_t i = 0; i < found; i += together) {
    Bucket group = *(first + static_cast<std::ptrdiff_t>(i));
    for (size_t j = i + 1; j < std::min(i + together, found); ++j) {
      merge(group, *(first + static_cast<std::ptrdiff_t>(j)));
    }
    points.push_back(group.point);
  }
  return points;
}

std::optional<int64_t> Series::find_step(double time) const {
  const auto after = std::upper_bound(
      buckets_.begin(), buckets_.end(), time, [](double when, const Bucket& bucket) {
        return when < bucket.point.time;
      });
  return after == buckets_.begin() ? std::nullopt : std::optional((after - 1)->point.step);
}

}  // namespace lockstep::monitor
