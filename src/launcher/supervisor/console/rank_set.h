// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::supervisor {

// A set of ranks, stored as ranges: "0-3,5".
class RankSet {
 public:
  struct Range {
    int first = 0;
    int last = 0;

    bool operator==(const Range&) const = default;
  };

  RankSet() = default;
  explicit RankSet(int rank) { insert(rank); }

  void insert(int rank);
  void insert(const RankSet& others);

  bool contains(int rank) const;
  bool intersects(const RankSet& others) const;
  int size() const { return size_; }
  const std::vector<Range>& ranges() const { return ranges_; }

  bool operator==(const RankSet&) const = default;

 private:
  std::vector<Range> ranges_;  // ascending, with a gap between any two
  int size_ = 0;
};

// "0-3,5"; empty for an empty set.
std::string to_string(const RankSet& ranks);

}  // namespace lockstep::supervisor
