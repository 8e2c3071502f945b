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
struct Place {
  std::string file;
  int line = 0;
  int column = 0;

  bool operator==(const Place&) const = default;
};

// "slurm_config.yaml:3:7", "command line".
std::string describe(const Place& place);

struct Entry;

struct Node {
  enum class Kind { Nothing, Scalar, List, Map };

  Kind kind = Kind::Nothing;
  std::string text;            // of a scalar, as written, without quotes
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in order
  Place place;

  // The value of `key` in a map; nullptr if there is none.
  const Node* find(std::string_view key) const;
};

struct Entry {
  std::string key;
  Place place;
  Node value;
};

// Parses the only document of `text`; `file` is the name in messages. Throws an Error (64) with
// line and column for invalid YAML, a duplicate key, or a key that is not a plain word.
Node parse_yaml(std::string_view text, const std::string& file);

// A scalar from another source than a file.
Node scalar(std::string text, const std::string& where = "command line");

// Throws an Error (64) with the position and the closest key if an entry of `map` is not in
// `known`.
void require_known(const Node& map, std::span<const std::string> known);

}  // namespace lockstep::config
