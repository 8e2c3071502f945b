// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Text that is drawn with: a column is one letter of Unicode, none is wider.
namespace lockstep::monitor {

// "███▌    ": `share` of `columns`, in eighths of a column; 0 to 1, beyond it is cut.
std::string bar(double share, size_t columns);

// "▁▂▅█": one letter per value from the least to the greatest; a blank for what is no number.
std::string curve(std::span<const double> values);

size_t columns_of(std::string_view text);

// The first `columns` of a text.
std::string cut(std::string_view text, size_t columns);

// Filled with blanks on one side, and cut where it is longer.
std::string left(std::string_view text, size_t columns);
std::string right(std::string_view text, size_t columns);

// "987M", "12.3G": at most five letters.
std::string short_bytes(int64_t bytes);

}  // namespace lockstep::monitor
