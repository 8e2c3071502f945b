// SPDX-License-Identifier: Apache-2.0
#include "monitor/keys.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::monitor {
namespace {

constexpr char kEscape = '\x1b';

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kSequences = {
    {{"[A", "up"},
     {"[B", "down"},
     {"OA", "up"},
     {"OB", "down"},
     {"[5~", "page up"},
     {"[6~", "page down"},
     {"[H", "home"},
     {"[F", "end"},
     {"OH", "home"},
     {"OF", "end"},
     {"[1~", "home"},
     {"[4~", "end"}}};

// How long a sequence after Escape is: "[" or "O", then numbers, then one letter.
size_t length_of(std::string_view sequence) {
  if (sequence.empty() || (sequence[0] != '[' && sequence[0] != 'O')) {
    return 0;
  }
  size_t length = 1;
  while (length < sequence.size() && (sequence[length] < '@' || sequence[length] > '~')) {
    ++length;
  }
  return length < sequence.size() ? length + 1 : length;
}

// How long the letter of UTF-8 is that begins with this byte.
size_t letter_length(char byte) {
  const auto bits = static_cast<unsigned char>(byte);
  return bits < 0xC0U ? 1 : bits < 0xE0U ? 2 : bits < 0xF0U ? 3 : 4;
}

}  // namespace

std::vector<std::string> keys_of(std::string_view bytes) {
  std::vector<std::string> keys;
  while (!bytes.empty()) {
    const char first = bytes.front();
    size_t length = 1;
    if (first == kEscape) {
      const std::string_view rest = bytes.substr(1);
      length = 1 + length_of(rest);
      const std::string_view sequence = bytes.substr(1, length - 1);
      if (sequence.empty()) {
        keys.emplace_back("escape");
      }
      for (const auto& [sent, name] : kSequences) {
        if (sent == sequence) {
          keys.emplace_back(name);
        }
      }
    } else if (first == '\r' || first == '\n') {
      keys.emplace_back("enter");
    } else if (first == '\x7f' || first == '\b') {
      keys.emplace_back("backspace");
    } else if (static_cast<unsigned char>(first) >= ' ') {
      length = letter_length(first);
      keys.emplace_back(bytes.substr(0, length));
    }
    bytes.remove_prefix(std::min(length, bytes.size()));
  }
  return keys;
}

}  // namespace lockstep::monitor
