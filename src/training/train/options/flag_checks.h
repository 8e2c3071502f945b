// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {

// Each function throws an Error that names the expected values if `value` is not valid for `flag`.

void require_choice(const std::string& flag,
                    const std::string& value,
                    const std::vector<std::string>& choices);

// Requires minimum <= value <= kMaxCount. The product of two counts does not overflow.
inline constexpr int64_t kMaxCount = 1'000'000'000;
void require_count(const std::string& flag, int64_t value, int64_t minimum, int64_t example = 32);

// Throws an Error if one of `others` is given together with `flag`, which makes it meaningless.
void require_alone(const std::string& flag,
                   const std::vector<std::pair<std::string, bool>>& others);

// The range of a number: from 0 (exclusive if `above`) to `maximum`. NaN is never in the range.
struct Range {
  bool above = false;
  double maximum = std::numeric_limits<double>::max();
  const char* example = "1";
};
void require_number(const std::string& flag, std::optional<double> value, const Range& range);

}  // namespace lockstep::train
