// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/document/node.h"

// A strict YAML (and therefore JSON) parser. Unknown keys are rejected with the closest known key.
namespace lockstep::config {

using document::describe;
using document::Position;
using document::TreeEntry;
using document::TreeNode;

// Parses the only document of `text`; `file` is the name in messages. Throws an Error (64) with
// line and column for invalid YAML, a duplicate key, or a key that is not a plain word.
TreeNode parse_yaml(std::string_view text, const std::string& file);

// A scalar from another source than a file.
TreeNode scalar(std::string text, const std::string& where = "command line");

// Throws an Error (64) with the position and the closest key if an entry of `map` is not in
// `known`.
void require_known(const TreeNode& map, std::span<const std::string> known);

}  // namespace lockstep::config
