// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

// Times in the formats of Slurm.
namespace lockstep::slurm {

inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Parses "MM", "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS" into seconds. "UNLIMITED",
// "INFINITE" and, as in Slurm, zero give kUnlimited. Empty for any other text.
std::optional<int64_t> find_time_limit(std::string_view text);

// Parses a duration: as above, but zero stays zero.
std::optional<int64_t> find_seconds(std::string_view text);

// Parses a time limit into minutes, rounded up as in Slurm. Throws an Error (64) with the text and
// its `source`.
int64_t parse_minutes(std::string_view text, std::string_view source = "");

// Formats minutes for Slurm and users: "02:03:00", "1-02:03:00", "UNLIMITED".
std::string format_minutes(int64_t minutes);

}  // namespace lockstep::slurm
