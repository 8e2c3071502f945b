// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What the readers of host lists share: names with Slurm's brackets, and one form of message.
namespace lockstep::cluster {

inline constexpr size_t kMostHosts = 100'000;
inline constexpr int64_t kMostSlots = 1 << 20;

// In quotes; of a long text its beginning, as a list may name thousands of machines.
std::string quote(std::string_view text);

// The text that is being read, for the messages about its parts.
class HostText {
 public:
  // `what` is its name for people: "the host list", "hosts.txt:3".
  HostText(std::string_view what, std::string_view text);

  // Throws an Error (64): `part` is what stands there, `expected` what could.
  [[noreturn]] void refuse(std::string_view part,
                           std::string_view expected,
                           std::string_view hint) const;

 private:
  std::string sentence_;
};

// Refuses `part` when it makes more hosts than any list may have.
void require_room(size_t hosts, std::string_view part, const HostText& source);

// The pieces between separators that are not in brackets; always at least one.
std::vector<std::string_view> split_outside_brackets(std::string_view text, char separator);

// One item of Slurm's list, "r[1-2]n[01-04]": the last bracket runs fastest.
std::vector<std::string> expand_name(std::string_view item, const HostText& source);

// A host, or several that were written as one, and what follows the colon, if there is one.
struct HostItem {
  std::vector<std::string> names;
  std::optional<std::string_view> tail;
};

// "n[1-3]:4", "[fd00::1]:4"; an address loses its brackets.
HostItem read_host_item(std::string_view item, const HostText& source, std::string_view hint);

}  // namespace lockstep::cluster
