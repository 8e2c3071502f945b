// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

// Times as Slurm writes and reads them.
namespace lockstep::slurm {

inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// "MM", "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM", "D-HH:MM:SS" in seconds; "UNLIMITED", "INFINITE"
// and, as in Slurm, a time of zero are kUnlimited. Nothing for another text.
std::optional<int64_t> find_time_limit(std::string_view text);

// How long something took or takes: the same, but zero is zero.
std::optional<int64_t> find_seconds(std::string_view text);

// A limit in minutes, a begun one counted whole, as Slurm does. Throws an Error (64) that quotes
// the text and its `source`.
int64_t parse_minutes(std::string_view text, std::string_view source = "");

// "02:03:00", "1-02:03:00", "UNLIMITED": what Slurm reads and people know.
std::string format_minutes(int64_t minutes);

}  // namespace lockstep::slurm
