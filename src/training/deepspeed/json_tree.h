// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// JSON with the position of each key, so that errors can show it.
namespace lockstep::deepspeed {

// Line and column, starting at 1. The place of an entry is that of its key.
struct Place {
  int line = 0;
  int column = 0;

  bool operator==(const Place&) const = default;
};

// "ds_config.json:3:5".
std::string describe(const std::string& source, Place place);

struct Entry;

struct Node {
  enum class Kind { Null, Flag, Whole, Number, Text, List, Map };

  Kind kind = Kind::Null;
  bool flag = false;
  int64_t whole = 0;
  double number = 0;  // also set for whole numbers
  std::string text;
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in the order of the file
  Place place;

  // The value of `key` in a map; nullptr if it is missing or null.
  const Node* find(std::string_view key) const;

  // For messages: "the string 'two'", "2", "a list".
  std::string describe_value() const;
};

struct Entry {
  std::string key;
  Node value;
};

// Parses `text`; `source` is its name in messages. Throws an Error (64) with line and column for
// invalid JSON, including comments and trailing commas, and for duplicate keys.
Node parse_json(std::string_view text, const std::string& source);

}  // namespace lockstep::deepspeed
