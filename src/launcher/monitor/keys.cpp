// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/keys.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::monitor {
namespace {

constexpr char kEscape = '\x1b';

// Terminals differ: xterm sends "ESC [ A" in normal and "ESC O A" in application cursor mode; Home
// and End are "[H", "OH" or "[1~" and so on, depending on the terminal and on tmux or screen in
// between.
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

// The length of the sequence after Escape: "[" or "O", then parameters, then a final byte from '@'
// to '~' (ECMA-48).
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

// The length of the UTF-8 sequence that starts with this byte.
size_t letter_length(char byte) {
  const auto bits = static_cast<unsigned char>(byte);
  return bits < 0xC0U ? 1 : bits < 0xE0U ? 2 : bits < 0xF0U ? 3 : 4;
}

// The key of a sequence after Escape; empty if the sequence is unknown.
std::string_view key_of(std::string_view sequence) {
  if (sequence.empty()) {
    return "escape";
  }
  const auto* const found =
      std::find_if(kSequences.begin(), kSequences.end(), [sequence](const auto& known) {
        return known.first == sequence;
      });
  return found == kSequences.end() ? std::string_view() : found->second;
}

struct Key {
  std::string_view name;  // empty: an unknown sequence or control character
  size_t length = 1;      // bytes that it consumes
};

// The first key in `bytes`, which must not be empty. A terminal writes an escape sequence at once,
// and a read() normally returns it completely. An Escape without a following "[" or "O" is
// therefore taken as the key itself, without a timeout.
Key first_key(std::string_view bytes) {
  const char first = bytes.front();
  if (first == kEscape) {
    const size_t length = length_of(bytes.substr(1));
    return {.name = key_of(bytes.substr(1, length)), .length = 1 + length};
  }
  if (first == '\r' || first == '\n') {
    return {.name = "enter"};
  }
  if (first == '\x7f' || first == '\b') {
    return {.name = "backspace"};
  }
  if (static_cast<unsigned char>(first) < ' ') {
    return {};
  }
  const size_t length = std::min(letter_length(first), bytes.size());
  return {.name = bytes.substr(0, length), .length = length};
}

}  // namespace

std::vector<std::string> keys_of(std::string_view bytes) {
  std::vector<std::string> keys;
  while (!bytes.empty()) {
    const Key key = first_key(bytes);
    if (!key.name.empty()) {
      keys.emplace_back(key.name);
    }
    bytes.remove_prefix(key.length);
  }
  return keys;
}

}  // namespace lockstep::monitor
