// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/config/yaml.h"
#include "lockstep/error.h"

// Conversions of a node. Each throws an Error (64) with the key, the position, the expected and the
// actual value.
namespace lockstep::config {

// "invalid value 'TEXT' for KEY", with position and expectation; the caller can add a hint.
Error invalid_value(const TreeNode& node, std::string_view key, std::string_view expected);

std::string read_text(const TreeNode& node, std::string_view key);

struct Bounds {
  int64_t minimum = 0;
  int64_t maximum = 1'000'000;
};
int64_t read_whole(const TreeNode& node, std::string_view key, Bounds bounds);

// true, yes, on, 1 and their opposites, in upper or lower case.
bool read_flag(const TreeNode& node, std::string_view key);

// A list of scalars, or one text split at commas; trims each piece.
std::vector<std::string> read_list(const TreeNode& node, std::string_view key);

// A list of scalars, or one text as the only line, unchanged.
std::vector<std::string> read_lines(const TreeNode& node, std::string_view key);

// A map of scalars, or a list of NAME=VALUE.
std::vector<std::pair<std::string, std::string>> read_pairs(const TreeNode& node,
                                                            std::string_view key);

}  // namespace lockstep::config
