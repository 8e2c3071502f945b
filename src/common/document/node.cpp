// SPDX-License-Identifier: Apache-2.0
#include "common/document/node.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep::document {

std::string describe(const Position& position) {
  return position.line == 0
             ? position.file
             : fmt::format("{}:{}:{}", position.file, position.line, position.column);
}

// Maps are lists of entries: configurations have tens of keys, and the order of the file matters
// for messages.
const TreeNode* TreeNode::find(std::string_view key) const {
  const auto found = std::find_if(
      entries.begin(), entries.end(), [key](const TreeEntry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

Error not_read(const std::string& why, const Position& position) {
  return Error(ExitCode::Usage, fmt::format("cannot read {}: {}", position.file, why))
      .fact("position", describe(position));
}

Error too_deep(const Position& position) {
  return not_read(fmt::format("more than {} levels of nesting", kDeepest), position);
}

// JSON and YAML parsers usually keep one of two equal keys and drop the other without a message.
void require_new_key(const TreeNode& map,
                     std::string_view key,
                     const Position& position,
                     std::string_view name) {
  for (const TreeEntry& earlier : map.entries) {
    if (earlier.key == key) {
      throw not_read(fmt::format("duplicate key '{}'", name), position)
          .fact("first", describe(earlier.position))
          .hint("remove one of them");
    }
  }
}

}  // namespace lockstep::document
