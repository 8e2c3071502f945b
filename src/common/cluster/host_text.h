// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Shared parts of the host list parsers: names with Slurm's brackets, and error messages.
namespace lockstep::cluster {

inline constexpr size_t kMaxHosts = 100'000;
inline constexpr int64_t kMaxSlots = 1 << 20;

// In quotes, truncated if long: a list can have thousands of hosts.
std::string quote(std::string_view text);

// The text being parsed, for error messages.
class HostText {
 public:
  // `what` is its name in messages: "host list", "line hosts.txt:3".
  HostText(std::string_view what, std::string_view text);

  // Throws an Error (64) with the invalid `part` and what was `expected` instead.
  [[noreturn]] void refuse(std::string_view part,
                           std::string_view expected,
                           std::string_view hint) const;

 private:
  std::string sentence_;
};

// Rejects `part` if it exceeds the maximum number of hosts in a list.
void require_room(size_t hosts, std::string_view part, const HostText& source);

// Splits at separators outside brackets; returns at least one piece.
std::vector<std::string_view> split_outside_brackets(std::string_view text, char separator);

// Expands one item of a hostlist, "r[1-2]n[01-04]"; the last bracket varies fastest.
std::vector<std::string> expand_name(std::string_view item, const HostText& source);

// One or more hosts of an item, and the part after the colon, if any.
struct HostItem {
  std::vector<std::string> names;
  std::optional<std::string_view> tail;
};

// "n[1-3]:4", "[fd00::1]:4"; removes the brackets of an address.
HostItem read_host_item(std::string_view item, const HostText& source, std::string_view hint);

}  // namespace lockstep::cluster
