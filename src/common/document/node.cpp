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

}  // namespace lockstep::document
