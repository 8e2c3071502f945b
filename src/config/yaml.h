// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// A strict reader of YAML (and so of JSON): everything remembers where it was written, so that a
// refusal can say it, and what nobody knows is refused with the closest known word.
namespace lockstep::config {

// Where something was written: a file with line and column from 1, or, without a line, "command
// line" and the like.
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
  std::string text;            // of a scalar, as it was written, without quotes
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in their order
  Place place;

  // The value of `key` in a map; nullptr where there is none.
  const Node* find(std::string_view key) const;
};

struct Entry {
  std::string key;
  Place place;
  Node value;
};

// The one document of `text`; `file` is the name that messages use. Throws an Error (64) with line
// and column for what is no YAML, has a key twice, or a key that is no plain word.
Node parse_yaml(std::string_view text, const std::string& file);

// A scalar that somebody typed.
Node scalar(std::string text, const std::string& where = "command line");

// Throws an Error (64) that names place and closest key for an entry of `map` that is not in
// `known`.
void require_known(const Node& map, std::span<const std::string> known);

}  // namespace lockstep::config
