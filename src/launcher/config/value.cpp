// SPDX-License-Identifier: Apache-2.0
//
// YAML's implicit types are not used: every scalar but null is text, and its reader decides.
// "1:30", "007", "no" and "1e3" therefore reach the options of Slurm as written, instead of as 90,
// 7, false and 1000.
#include "launcher/config/value.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "common/base/text.h"

namespace lockstep::config {
namespace {

std::string found_in(const TreeNode& node) {
  switch (node.kind) {
    case TreeNode::Kind::Null:
      return "nothing";
    case TreeNode::Kind::List:
      return "a list";
    case TreeNode::Kind::Map:
      return "a map";
    default:
      return fmt::format("'{}'", node.text);
  }
}

const TreeNode& require_scalar(const TreeNode& node,
                               std::string_view key,
                               std::string_view expected) {
  if (node.kind != TreeNode::Kind::Text) {
    throw invalid_value(node, key, expected);
  }
  return node;
}

std::vector<std::string> scalars_of(const TreeNode& list, std::string_view key) {
  std::vector<std::string> texts;
  texts.reserve(list.items.size());
  for (const TreeNode& item : list.items) {
    texts.push_back(require_scalar(item, key, "a list of single values").text);
  }
  return texts;
}

}  // namespace

Error invalid_value(const TreeNode& node, std::string_view key, std::string_view expected) {
  const std::string text = node.kind == TreeNode::Kind::Text ? fmt::format(" '{}'", node.text) : "";
  return Error(ExitCode::Usage, fmt::format("invalid value{} for {}", text, key))
      .fact("expected", expected)
      .fact("found", found_in(node), describe(node.position));
}

std::string read_text(const TreeNode& node, std::string_view key) {
  return require_scalar(node, key, "one value").text;
}

int64_t read_whole(const TreeNode& node, std::string_view key, Bounds bounds) {
  const std::string expected =
      fmt::format("a whole number from {} to {}", bounds.minimum, bounds.maximum);
  const auto number = find_integer(require_scalar(node, key, expected).text);
  if (!number || *number < bounds.minimum || *number > bounds.maximum) {
    throw invalid_value(node, key, expected);
  }
  return *number;
}

bool read_flag(const TreeNode& node, std::string_view key) {
  constexpr std::array<std::string_view, 5> kYes = {"true", "yes", "on", "1", "y"};
  constexpr std::array<std::string_view, 5> kNo = {"false", "no", "off", "0", "n"};
  const std::string word = to_lower(require_scalar(node, key, "true or false").text);
  if (std::find(kYes.begin(), kYes.end(), word) != kYes.end()) {
    return true;
  }
  if (std::find(kNo.begin(), kNo.end(), word) != kNo.end()) {
    return false;
  }
  throw invalid_value(node, key, "true or false");
}

std::vector<std::string> read_list(const TreeNode& node, std::string_view key) {
  if (node.kind == TreeNode::Kind::List) {
    return scalars_of(node, key);
  }
  std::vector<std::string> pieces;
  for (const std::string& piece : split(require_scalar(node, key, "a list").text, ',')) {
    if (const std::string_view word = trim(piece); !word.empty()) {
      pieces.emplace_back(word);
    }
  }
  return pieces;
}

std::vector<std::string> read_lines(const TreeNode& node, std::string_view key) {
  if (node.kind == TreeNode::Kind::List) {
    return scalars_of(node, key);
  }
  return {require_scalar(node, key, "a list, or one line").text};
}

// The list form keeps `--env` lines that are copied from a command; only the first '=' separates.
std::vector<std::pair<std::string, std::string>> read_pairs(const TreeNode& node,
                                                            std::string_view key) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (node.kind == TreeNode::Kind::Map) {
    for (const TreeEntry& entry : node.entries) {
      // An empty value sets the variable to an empty text: `NAME:`.
      const bool is_empty = entry.value.kind == TreeNode::Kind::Null;
      pairs.emplace_back(
          entry.key,
          is_empty ? ""
                   : require_scalar(entry.value, fmt::format("{}.{}", key, entry.key), "one value")
                         .text);
    }
    return pairs;
  }
  for (const std::string& line : read_lines(node, key)) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw invalid_value(node, key, "NAME: VALUE, or NAME=VALUE").fact("without '='", line);
    }
    pairs.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return pairs;
}

}  // namespace lockstep::config
