// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/document/node.h"
#include "lockstep/error.h"

namespace lockstep::deepspeed {

using document::TreeEntry;
using document::TreeNode;

// How lockstep treats a key.
enum class Treatment {
  Used,      // has an effect
  Harmless,  // accepted without effect: always the case here, or not needed
  Refused,   // not supported: only the value that disables it is accepted
};

// One key of DeepSpeed's file. Only keys in the table are accepted.
struct Key {
  enum class Type { Flag, Whole, Number, Text, Pair, Section, Any };

  std::string_view path;  // "zero_optimization.stage"
  Type type = Type::Any;
  Treatment treatment = Treatment::Used;
  // Allowed values of a string, separated by blanks; empty: any.
  std::string_view choices = {};
  double minimum = 0;  // minimum of a number
  bool may_be_auto = false;
  // Refused keys: the value that disables the feature, as JSON. A section is disabled if it is
  // empty or contains "enabled": false.
  std::string_view off = {};
  // Refused keys: the alternative, for the hint.
  std::string_view instead = {};
  // Types of optimizer or scheduler with this parameter, in lower case; empty: all.
  std::string_view of = {};
  // Alternative spelling of the key; `path` has precedence.
  std::string_view alias = {};
};

std::span<const Key> keys();

// Throws an Error (64) with key, position and remedy for the first key that is not in the table,
// has an invalid type or value, or requests an unsupported feature.
void require_schema(const TreeNode& root, const std::string& source);

// The value of `path` in either spelling; nullptr if absent or null.
const TreeNode* find(const TreeNode& root, std::string_view path);

// "cannot use KEY in ds_config.json: WHY", with the position of `node`.
Error not_usable(const TreeNode& node,
                 std::string_view path,
                 const std::string& source,
                 std::string_view why);

}  // namespace lockstep::deepspeed
