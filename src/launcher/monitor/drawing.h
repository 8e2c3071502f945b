// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Drawing with text. A column is one Unicode code point; wide characters are not supported.
namespace lockstep::monitor {

// "███▌    ": a bar of `share` of `columns`, in eighths of a column. Clamps `share` to 0..1.
std::string bar(double share, size_t columns);

// "▁▂▅█": one character per value, scaled from the minimum to the maximum; a blank for a value
// that is not finite.
std::string curve(std::span<const double> values);

size_t columns_of(std::string_view text);

// The first `columns` columns of a text.
std::string cut(std::string_view text, size_t columns);

// The text aligned to the left or right in `columns` columns; cut if it is longer.
std::string left(std::string_view text, size_t columns);
std::string right(std::string_view text, size_t columns);

// "987M", "12.3G": at most five characters.
std::string short_bytes(int64_t bytes);

}  // namespace lockstep::monitor
