// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/flag_checks.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::train {

void require_choice(const std::string& flag,
                    const std::string& value,
                    const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return;
  }
  throw Error(ExitCode::Usage, fmt::format("{} '{}' is not a valid value", flag, value))
      .fact("expected", join(choices, ", "))
      .hint(fmt::format("{} {}", flag, find_closest(value, choices).value_or(choices.front())));
}

// The hint is never below the minimum.
void require_count(const std::string& flag, int64_t value, int64_t minimum, int64_t example) {
  if (value >= minimum && value <= kMaxCount) {
    return;
  }
  // parse_flags() clamps numbers that are too large for the type to its maximum.
  const char* more = value == std::numeric_limits<int64_t>::max() ? " or more" : "";
  throw Error(ExitCode::Usage, fmt::format("{} {}{} is out of range", flag, value, more))
      .fact("expected",
            value < minimum ? fmt::format("an integer of at least {}", minimum)
                            : fmt::format("an integer of at most {}", kMaxCount))
      .fact("found", fmt::format("{}{}", value, more), "command line")
      .hint(fmt::format("{} {}", flag, std::max(minimum, example)));
}

void require_alone(const std::string& flag,
                   const std::vector<std::pair<std::string, bool>>& others) {
  for (const auto& [other, is_given] : others) {
    if (is_given) {
      throw Error(ExitCode::Usage, fmt::format("{} conflicts with {}", flag, other))
          .fact("found", fmt::format("{} and {}", flag, other), "command line")
          .hint("omit one of them");
    }
  }
}

void require_number(const std::string& flag, std::optional<double> value, const Range& range) {
  // Comparisons with NaN are false, so NaN is out of range.
  const bool is_right =
      !value || ((range.above ? *value > 0 : *value >= 0) && *value <= range.maximum);
  if (is_right) {
    return;
  }
  std::string expected = range.above ? "a number above 0" : "a number of at least 0";
  if (*value > 0) {
    expected += fmt::format(", at most {:g}", range.maximum);
  }
  throw Error(ExitCode::Usage, fmt::format("{} {:g} is out of range", flag, *value))
      .fact("expected", expected)
      .fact("found", fmt::format("{:g}", *value), "command line")
      .hint(fmt::format("{} {}", flag, range.example));
}

}  // namespace lockstep::train
