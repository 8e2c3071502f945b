// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// A strict YAML (and therefore JSON) parser. Every node has its position, so that messages can
// report it. Unknown keys are rejected with the closest known key.
namespace lockstep::config {

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

struct YamlEntry;

struct YamlNode {
  enum class Kind { Nothing, Scalar, List, Map };

  Kind kind = Kind::Nothing;
  std::string text;                // of a scalar, as written, without quotes
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a map, in order
  Position position;

  // The value of `key` in a map; nullptr if there is none.
  const YamlNode* find(std::string_view key) const;
};

struct YamlEntry {
  std::string key;
  Position position;
  YamlNode value;
};

// Parses the only document of `text`; `file` is the name in messages. Throws an Error (64) with
// line and column for invalid YAML, a duplicate key, or a key that is not a plain word.
YamlNode parse_yaml(std::string_view text, const std::string& file);

// A scalar from another source than a file.
YamlNode scalar(std::string text, const std::string& where = "command line");

// Throws an Error (64) with the position and the closest key if an entry of `map` is not in
// `known`.
void require_known(const YamlNode& map, std::span<const std::string> known);

}  // namespace lockstep::config
