// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/drawing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace lockstep::monitor {
namespace {

// Unicode has block characters in eighths of a cell: U+2588 to U+258F by width, U+2581 to U+2588 by
// height.
constexpr size_t kEighths = 8;
constexpr std::array<const char*, kEighths> kParts = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
constexpr std::array<const char*, kEighths> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// Whether a byte starts a UTF-8 sequence.
bool is_begin(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

}  // namespace

std::string bar(double share, size_t columns) {
  const double wanted = std::clamp(std::isnan(share) ? 0.0 : share, 0.0, 1.0);
  const auto eighths =
      static_cast<size_t>(std::lround(wanted * static_cast<double>(columns * kEighths)));
  std::string text;
  for (size_t column = 0; column < columns; ++column) {
    const size_t begin = column * kEighths;
    text += eighths >= begin + kEighths ? "█" : kParts[eighths > begin ? eighths - begin : 0];
  }
  return text;
}

std::string curve(std::span<const double> values) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double value : values) {
    if (std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  std::string text;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      text += " ";
      continue;
    }
    const double share = high > low ? (value - low) / (high - low) : 0;
    text += kHeights[static_cast<size_t>(std::lround(share * (kEighths - 1)))];
  }
  return text;
}

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), is_begin));
}

std::string cut(std::string_view text, size_t columns) {
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_begin(text[i]) && seen++ == columns) {
      return std::string(text.substr(0, i));
    }
  }
  return std::string(text);
}

std::string left(std::string_view text, size_t columns) {
  std::string all = cut(text, columns);
  all.append(columns - columns_of(all), ' ');
  return all;
}

std::string right(std::string_view text, size_t columns) {
  const std::string all = cut(text, columns);
  return std::string(columns - columns_of(all), ' ') + all;
}

// 1024 per unit. 1023 bytes of a unit are at most four digits, and a number below 100 gets one
// decimal: at most five characters with the unit.
std::string short_bytes(int64_t bytes) {
  constexpr double kNext = 1024;
  constexpr double kWide = 100;
  auto number = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"K", "M", "G", "T", "P"}) {
    if (number < kNext) {
      break;
    }
    number /= kNext;
    unit = next;
  }
  return *unit == 'B' || number >= kWide ? fmt::format("{:.0f}{}", number, unit)
                                         : fmt::format("{:.1f}{}", number, unit);
}

}  // namespace lockstep::monitor
