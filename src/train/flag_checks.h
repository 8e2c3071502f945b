// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {

// Each throws an Error that says what may stand after `flag` where `value` may not.

void require_choice(const std::string& flag,
                    const std::string& value,
                    const std::vector<std::string>& choices);

// From `least` to kMostOfACount, two of which can be multiplied.
inline constexpr int64_t kMostOfACount = 1'000'000'000;
void require_count(const std::string& flag, int64_t value, int64_t least, int64_t example = 32);

// Throws an Error where `flag` is given together with one that it leaves nothing to do.
void require_alone(const std::string& flag,
                   const std::vector<std::pair<std::string, bool>>& others);

// From 0 (or above it) to `most`; never nan.
struct Range {
  bool above = false;
  double most = std::numeric_limits<double>::max();
  const char* example = "1";
};
void require_number(const std::string& flag, std::optional<double> value, const Range& range);

}  // namespace lockstep::train
