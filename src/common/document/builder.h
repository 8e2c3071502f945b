// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "common/document/node.h"

namespace lockstep::document {

// Limits of a file. What exceeds them is a mistake or an attack, not a configuration: a YAML file
// of 480 bytes can ask for 10^10 nodes with aliases of aliases.
inline constexpr size_t kMaxBytes = 1 << 20;
inline constexpr size_t kMaxDepth = 32;
inline constexpr size_t kMaxNodes = 100'000;

// Throws an Error (64) if the text of a file is longer than kMaxBytes.
void require_size(std::string_view text, const std::string& file);

// Builds a tree from the events of a parser. Throws an Error (64) for a duplicate key and for a
// tree beyond the limits, before memory is used for it.
//
//   builder.open(TreeNode::Kind::Map, position);
//   builder.key("time", position);
//   builder.put(scalar);
//   builder.close();
class TreeBuilder {
 public:
  // The next put() or open() in a map is the value of this key.
  void key(const std::string& name, const Position& position);

  // Adds a value: a scalar, or a complete subtree.
  void put(TreeNode node);

  // Starts and ends a list or a map. close() returns the completed node, which stays valid until
  // the next call.
  void open(TreeNode::Kind kind, const Position& position);
  const TreeNode& close();

  // Counts a subtree that the parser copies for itself, such as the value of an anchor. put() does
  // so for what it adds.
  void require_room(const TreeNode& node);

  // The root, after all containers were closed.
  TreeNode take() { return std::move(root_); }

 private:
  struct Open {
    TreeNode node;
    std::string key;  // of the current entry
    Position key_position;
    std::unordered_set<std::string> keys;
  };

  const TreeNode& add(TreeNode node);
  std::string path() const;

  std::vector<Open> open_;
  TreeNode root_;
  size_t nodes_ = 0;
};

}  // namespace lockstep::document
