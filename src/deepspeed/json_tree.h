// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// JSON that remembers where each key was written, so that a refusal can say it.
namespace lockstep::deepspeed {

// Line and column from 1; of an entry those of its key.
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
  double number = 0;  // of a whole number too
  std::string text;
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in their order
  Place place;

  // The value of `key` in a map; nullptr where there is none, or where it is null.
  const Node* find(std::string_view key) const;

  // For messages: "the text 'two'", "2", "a list".
  std::string describe_value() const;
};

struct Entry {
  std::string key;
  Node value;
};

// The document of `text`; `source` is the name that messages use. Throws an Error (64) with line
// and column for what is no JSON (comments and a comma after the last entry are not), and for a key
// that is there twice.
Node parse_json(std::string_view text, const std::string& source);

}  // namespace lockstep::deepspeed
