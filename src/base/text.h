// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// "a,b,,c" at ',' is four pieces; an empty text is none.
std::vector<std::string> split(std::string_view text, char separator);

std::string join(std::span<const std::string> pieces, std::string_view separator);

// Without the blanks and line ends around it.
std::string_view trim(std::string_view text);

// Small letters; those beyond ASCII stay.
std::string to_lower(std::string_view text);

// Rows of one length as columns, two blanks between them.
std::string format_table(std::span<const std::vector<std::string>> rows);

// The text as one word of a POSIX shell; plain words stay as they are.
std::string quote_for_shell(std::string_view word);

// The choice that `word` was probably meant to be, if one is near enough.
std::optional<std::string> find_closest(std::string_view word,
                                        std::span<const std::string> choices);

// A whole number and nothing else.
std::optional<int64_t> find_integer(std::string_view text);

// "512 B", "1.5 KiB", "12.0 MiB".
std::string format_bytes(uint64_t bytes);

// "0.4 s", "1 min 12 s", "2 h 05 min".
std::string format_duration(double seconds);

// "12 345 678": groups of three, for people.
std::string format_count(int64_t count);

}  // namespace lockstep
