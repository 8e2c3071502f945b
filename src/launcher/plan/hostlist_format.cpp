// SPDX-License-Identifier: Apache-2.0
//
// One pass, because the order of the names must survive: only neighbours are joined, so "n2,n1"
// stays as it is. Numbers keep their width: "n08,n09,n10" is "n[08-10]", but "n9,n10" is "n[9-10]".
#include "launcher/plan/hostlist_format.h"

#include <fmt/format.h>
#include <optional>
#include <vector>

#include "common/base/text.h"

namespace lockstep::plan {
namespace {

// "gpu-08" is "gpu-" and 8, two digits wide.
struct Numbered {
  std::string stem;
  std::string digits;
  int64_t number = 0;
};

// Nine digits fit into 32 bits, also for other readers of the list.
std::optional<Numbered> find_number_of(const std::string& name) {
  constexpr size_t kMaxDigits = 9;
  const size_t end = name.find_last_not_of("0123456789");
  const size_t start = end == std::string::npos ? 0 : end + 1;
  std::string digits = name.substr(start);
  if (digits.empty() || digits.size() > kMaxDigits) {
    return std::nullopt;
  }
  const int64_t number = *find_integer(digits);
  return Numbered{name.substr(0, start), std::move(digits), number};
}

// Consecutive names with the same stem; their numbers as ranges.
struct Group {
  std::string stem;
  std::vector<std::string> ranges;
  size_t names = 0;
  std::string only;  // the whole name, if the group has one member

  std::string text() const {
    return names == 1 ? only : fmt::format("{}[{}]", stem, join(ranges, ","));
  }
};

// Whether `next` extends the range that ends in `last`: the next number, with the same width.
bool follows(const Numbered& last, const Numbered& next) {
  return next.number == last.number + 1 &&
         (next.digits.size() == last.digits.size() || next.digits.front() != '0') &&
         (next.digits.size() == last.digits.size() || last.digits.front() != '0');
}

class Folder {
 public:
  void add(const std::string& name) {
    const auto next = find_number_of(name);
    if (!next || groups_.empty() || !last_ || last_->stem != next->stem) {
      groups_.push_back({.stem = next ? next->stem : "", .ranges = {}, .names = 0, .only = name});
      first_ = "";
    }
    Group& group = groups_.back();
    ++group.names;
    if (next && last_ && group.names > 1 && follows(*last_, *next)) {
      group.ranges.back() = fmt::format("{}-{}", first_, next->digits);
    } else if (next) {
      first_ = next->digits;
      group.ranges.push_back(first_);
    }
    last_ = next;
  }

  std::string text() const {
    std::vector<std::string> pieces;
    pieces.reserve(groups_.size());
    for (const Group& group : groups_) {
      pieces.push_back(group.text());
    }
    return join(pieces, ",");
  }

 private:
  std::vector<Group> groups_;
  std::optional<Numbered> last_;
  std::string first_;  // start of the open range
};

}  // namespace

std::string to_hostlist(std::span<const std::string> names) {
  Folder folder;
  for (const std::string& name : names) {
    folder.add(name);
  }
  return folder.text();
}

}  // namespace lockstep::plan
