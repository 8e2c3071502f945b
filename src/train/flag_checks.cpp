// SPDX-License-Identifier: Apache-2.0
#include "train/flag_checks.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/text.h"
#include "lockstep/error.h"

namespace lockstep::train {

void require_choice(const std::string& flag,
                    const std::string& value,
                    const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return;
  }
  throw Error(ExitCode::Usage, fmt::format("cannot use {} '{}'", flag, value))
      .fact("there are", join(choices, ", "))
      .hint(fmt::format("{} {}", flag, find_closest(value, choices).value_or(choices.front())));
}

void require_count(const std::string& flag, int64_t value, int64_t least, int64_t example) {
  if (value >= least && value <= kMostOfACount) {
    return;
  }
  // Longer numbers than there are end up as the largest.
  const char* more = value == std::numeric_limits<int64_t>::max() ? " or more" : "";
  throw Error(ExitCode::Usage, fmt::format("cannot train with {} {}{}", flag, value, more))
      .fact("expected",
            value < least ? fmt::format("a whole number of at least {}", least)
                          : fmt::format("a whole number, at most {}", kMostOfACount))
      .fact("found", fmt::format("{}{}", value, more), "command line")
      .hint(fmt::format("{} {}", flag, std::max(least, example)));
}

void require_alone(const std::string& flag,
                   const std::vector<std::pair<std::string, bool>>& others) {
  for (const auto& [other, is_given] : others) {
    if (is_given) {
      throw Error(ExitCode::Usage, fmt::format("cannot take both {} and {}", flag, other))
          .fact("found", fmt::format("{} and {}", flag, other), "command line")
          .hint("leave out one of them");
    }
  }
}

void require_number(const std::string& flag, std::optional<double> value, const Range& range) {
  // Written so that nan is not within it.
  const bool is_right =
      !value || ((range.above ? *value > 0 : *value >= 0) && *value <= range.most);
  if (is_right) {
    return;
  }
  std::string expected = range.above ? "a number above 0" : "a number of at least 0";
  if (*value > 0) {
    expected += fmt::format(", at most {:g}", range.most);
  }
  throw Error(ExitCode::Usage, fmt::format("cannot train with {} {:g}", flag, *value))
      .fact("expected", expected)
      .fact("found", fmt::format("{:g}", *value), "command line")
      .hint(fmt::format("{} {}", flag, range.example));
}

}  // namespace lockstep::train
