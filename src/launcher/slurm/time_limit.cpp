// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/time_limit.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::slurm {
namespace {

constexpr int64_t kSecondsPerMinute = 60;
constexpr int64_t kSecondsPerHour = 3600;
constexpr int64_t kSecondsPerDay = 86400;

// Parses a number of at most 9 digits, which cannot overflow.
std::optional<int64_t> find_part(std::string_view text) {
  constexpr size_t kMaxDigits = 9;
  const bool is_number = !text.empty() && text.size() <= kMaxDigits &&
                         text.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? find_integer(text) : std::nullopt;
}

// split() drops nothing but an empty text, so "1::2" has an empty part, which is not a number.
std::optional<std::vector<int64_t>> find_parts(std::string_view text) {
  std::vector<int64_t> parts;
  if (text.empty() || text.back() == ':') {
    return std::nullopt;
  }
  for (const std::string& piece : split(text, ':')) {
    const auto part = find_part(piece);
    if (!part) {
      return std::nullopt;
    }
    parts.push_back(*part);
  }
  return parts.size() <= 3 ? std::optional(parts) : std::nullopt;
}

// Without days: one part is minutes, two are minutes and seconds, three begin with hours.
int64_t seconds_of(const std::vector<int64_t>& parts) {
  switch (parts.size()) {
    case 1:
      return parts[0] * kSecondsPerMinute;
    case 2:
      return parts[0] * kSecondsPerMinute + parts[1];
    default:
      return parts[0] * kSecondsPerHour + parts[1] * kSecondsPerMinute + parts[2];
  }
}

// After days, the first part is hours. "D-HH" and "D-HH:MM" are filled with zeros from the right.
int64_t seconds_behind_days(std::vector<int64_t> parts) {
  parts.resize(3, 0);
  return seconds_of(parts);
}

bool is_same_word(std::string_view text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(), [](char one, char other) {
    return (one >= 'a' && one <= 'z' ? one - 'a' + 'A' : one) == other;
  });
}

}  // namespace

std::optional<int64_t> find_seconds(std::string_view text) {
  if (is_same_word(text, "UNLIMITED") || is_same_word(text, "INFINITE")) {
    return kUnlimited;
  }
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    const auto parts = find_parts(text);
    return parts ? std::optional(seconds_of(*parts)) : std::nullopt;
  }
  const auto days = find_part(text.substr(0, dash));
  const auto parts = find_parts(text.substr(dash + 1));
  if (!days || !parts) {
    return std::nullopt;
  }
  return *days * kSecondsPerDay + seconds_behind_days(*parts);
}

std::optional<int64_t> find_time_limit(std::string_view text) {
  const auto seconds = find_seconds(text);
  return seconds == int64_t{0} ? kUnlimited : seconds;
}

// Slurm's own unit of time limits is the minute.
int64_t parse_minutes(std::string_view text, std::string_view source) {
  const auto seconds = find_time_limit(text);
  if (!seconds) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for the time limit", text))
        .fact("time", text, source)
        .fact("expected", "MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED")
        .hint("01:30:00");
  }
  return *seconds == kUnlimited ? kUnlimited
                                : (*seconds + kSecondsPerMinute - 1) / kSecondsPerMinute;
}

std::string format_minutes(int64_t minutes) {
  if (minutes == kUnlimited) {
    return "UNLIMITED";
  }
  constexpr int64_t kMinutesPerHour = 60;
  constexpr int64_t kMinutesPerDay = 1440;
  const std::string days =
      minutes >= kMinutesPerDay ? fmt::format("{}-", minutes / kMinutesPerDay) : "";
  return fmt::format("{}{:02}:{:02}:00",
                     days,
                     minutes % kMinutesPerDay / kMinutesPerHour,
                     minutes % kMinutesPerHour);
}

}  // namespace lockstep::slurm
