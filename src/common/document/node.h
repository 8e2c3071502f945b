// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/error.h"

// The tree of a YAML or JSON file. Every node has its position, so that messages can report it. The
// parsers are launcher/config/yaml.h and common/document/json.h.
namespace lockstep::document {

// The position of a node: a file with line and column, both from 1, or without a line a source such
// as "command line".
struct Position {
  std::string file;
  int line = 0;
  int column = 0;

  bool operator==(const Position&) const = default;
};

// "slurm_config.yaml:3:7", "command line".
std::string describe(const Position& position);

struct TreeEntry;

struct TreeNode {
  // All scalars of YAML are Text.
  enum class Kind { Null, Flag, Whole, Number, Text, List, Map };

  Kind kind = Kind::Null;
  bool flag = false;
  int64_t whole = 0;
  double number = 0;               // also set for whole numbers
  std::string text;                // as written, without quotes
  std::vector<TreeNode> items;     // of a list
  std::vector<TreeEntry> entries;  // of a map, in the order of the file
  Position position;

  // The value of `key` in a map; nullptr if there is none.
  const TreeNode* find(std::string_view key) const;
};

struct TreeEntry {
  std::string key;
  Position position;
  TreeNode value;
};

// For parsers. Error (64) "cannot read FILE: WHY" with the position.
Error not_read(const std::string& why, const Position& position);

}  // namespace lockstep::document
