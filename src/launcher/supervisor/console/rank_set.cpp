// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/console/rank_set.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep::supervisor {
namespace {

// The first range that ends at `rank` or later.
template <typename Ranges>
auto find_range(Ranges& ranges, int rank) {
  return std::lower_bound(
      ranges.begin(), ranges.end(), rank, [](const RankSet::Range& range, int wanted) {
        return range.last < wanted;
      });
}

}  // namespace

void RankSet::insert(int rank) {
  const auto after = find_range(ranges_, rank);
  if (after != ranges_.end() && after->first <= rank) {
    return;
  }
  ++size_;
  const bool joins_after = after != ranges_.end() && after->first == rank + 1;
  const bool joins_before = after != ranges_.begin() && (after - 1)->last + 1 == rank;
  if (joins_before && joins_after) {
    (after - 1)->last = after->last;
    ranges_.erase(after);
  } else if (joins_before) {
    (after - 1)->last = rank;
  } else if (joins_after) {
    after->first = rank;
  } else {
    ranges_.insert(after, {.first = rank, .last = rank});
  }
}

// Merges two sorted lists of ranges. Adjacent ranges are joined too ("0-3" and "4"), which keeps
// the invariant of a gap between any two.
void RankSet::insert(const RankSet& others) {
  std::vector<Range> all;
  all.reserve(ranges_.size() + others.ranges_.size());
  std::merge(ranges_.begin(),
             ranges_.end(),
             others.ranges_.begin(),
             others.ranges_.end(),
             std::back_inserter(all),
             [](const Range& one, const Range& other) { return one.first < other.first; });
  ranges_.clear();
  size_ = 0;
  for (const Range& range : all) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
  for (const Range& range : ranges_) {
    size_ += range.last - range.first + 1;
  }
}

bool RankSet::contains(int rank) const {
  const auto found = find_range(ranges_, rank);
  return found != ranges_.end() && found->first <= rank;
}

// One pass over both lists: `other` never moves back, because both are ascending.
bool RankSet::intersects(const RankSet& others) const {
  auto other = others.ranges_.begin();
  for (const Range& range : ranges_) {
    while (other != others.ranges_.end() && other->last < range.first) {
      ++other;
    }
    if (other == others.ranges_.end()) {
      return false;
    }
    if (other->first <= range.last) {
      return true;
    }
  }
  return false;
}

std::string to_string(const RankSet& ranks) {
  std::string text;
  for (const RankSet::Range& range : ranks.ranges()) {
    text += text.empty() ? "" : ",";
    text += range.first == range.last ? fmt::format("{}", range.first)
                                      : fmt::format("{}-{}", range.first, range.last);
  }
  return text;
}

}  // namespace lockstep::supervisor
