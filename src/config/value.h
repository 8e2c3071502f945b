// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/yaml.h"
#include "lockstep/error.h"

// What a node means. Each throws an Error (64) that names the key, the place, what was expected and
// what is there.
namespace lockstep::config {

// "cannot understand KEY 'TEXT'", with place and expectation; the caller may add a hint.
Error not_understood(const Node& node, std::string_view key, std::string_view expected);

std::string read_text(const Node& node, std::string_view key);

struct Bounds {
  int64_t least = 0;
  int64_t most = 1'000'000;
};
int64_t read_whole(const Node& node, std::string_view key, Bounds bounds);

// true, yes, on, 1 and their opposites, in any case.
bool read_flag(const Node& node, std::string_view key);

// A list of scalars, or one text with the pieces between commas; blanks around a piece are dropped.
std::vector<std::string> read_list(const Node& node, std::string_view key);

// A list of scalars, or one text that is the only line; nothing is cut.
std::vector<std::string> read_lines(const Node& node, std::string_view key);

// A map of scalars; as a list, NAME=VALUE each.
std::vector<std::pair<std::string, std::string>> read_pairs(const Node& node, std::string_view key);

}  // namespace lockstep::config
