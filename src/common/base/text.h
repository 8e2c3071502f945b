// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// "a,b,,c" at ',' is four pieces; an empty text has none.
std::vector<std::string> split(std::string_view text, char separator);

std::string join(std::span<const std::string> pieces, std::string_view separator);

// "n1, n2, n3 and 12 more": at most `maximum` names.
std::string name_some(std::span<const std::string> names, size_t maximum);

// "1 node", "3 nodes", "1 024 nodes".
std::string plural(int64_t count, std::string_view noun);

// Without surrounding white space.
std::string_view trim(std::string_view text);

// ASCII letters in lower case; other characters are unchanged.
std::string to_lower(std::string_view text);

// Formats rows of equal length as columns, separated by two spaces.
std::string format_table(std::span<const std::vector<std::string>> rows);

// The text as one word of a POSIX shell; plain words are unchanged.
std::string quote_for_shell(std::string_view word);

// The choice that `word` is probably a misspelling of, if one is close enough.
std::optional<std::string> find_closest(std::string_view word,
                                        std::span<const std::string> choices);

// Parses a whole number without any other characters.
std::optional<int64_t> find_integer(std::string_view text);

// "512 B", "1.5 KiB", "12.0 MiB".
std::string format_bytes(uint64_t bytes);

// "0.4 s", "1 min 12 s", "2 h 05 min".
std::string format_duration(double seconds);

// "12 345 678": groups of three digits.
std::string format_count(int64_t count);

}  // namespace lockstep
