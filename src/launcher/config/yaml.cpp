// SPDX-License-Identifier: Apache-2.0
#include "launcher/config/yaml.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::config {
namespace {

using document::not_read;

// yaml-cpp counts from 0, and returns -1 for an unknown position.
Position position_of(const YAML::Mark& mark, const std::string& file) {
  return {.file = file, .line = std::max(mark.line, 0) + 1, .column = std::max(mark.column, 0) + 1};
}

// A hint for a syntax error, selected by the English message of yaml-cpp.
const char* advice_on(const std::string& fault) {
  if (fault.find("tab") != std::string::npos) {
    return "use spaces instead of tabs";
  }
  if (fault.find("end of sequence flow") != std::string::npos) {
    return "close the list with ']'";
  }
  if (fault.find("end of map flow") != std::string::npos) {
    return "close it with '}', or quote a value that contains '{'";
  }
  return "quote values that contain ': ', '#', '{' or '*'";
}

// Copies the nodes of yaml-cpp into a TreeNode. Aliases are expanded by the copy; the depth limit
// also stops an alias that contains itself.
class Converter {
 public:
  explicit Converter(const std::string& file) : file_(file) {}

  TreeNode convert(const YAML::Node& from, int depth) const {
    TreeNode node;
    node.position = position_of(from.Mark(), file_);
    if (depth > document::kDeepest) {
      throw document::too_deep(node.position);
    }
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        node.kind = TreeNode::Kind::Text;
        node.text = from.Scalar();
        break;
      case YAML::NodeType::Sequence:
        node.kind = TreeNode::Kind::List;
        for (const auto& item : from) {
          node.items.push_back(convert(item, depth + 1));
        }
        break;
      case YAML::NodeType::Map:
        node.kind = TreeNode::Kind::Map;
        for (const auto& entry : from) {
          add(node, entry.first, convert(entry.second, depth + 1));
        }
        break;
    }
    return node;
  }

 private:
  void add(TreeNode& map, const YAML::Node& key, TreeNode value) const {
    const Position position = position_of(key.Mark(), file_);
    if (!key.IsScalar()) {
      throw not_read("a key must be one word", position);
    }
    document::require_new_key(map, key.Scalar(), position, key.Scalar());
    map.entries.push_back({key.Scalar(), position, std::move(value)});
  }

  const std::string& file_;
};

}  // namespace

// LoadAll and not Load, which silently ignores further documents.
TreeNode parse_yaml(std::string_view text, const std::string& file) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) {
      throw not_read("it has more than one document", position_of(documents[1].Mark(), file))
          .hint("use one file for each, without the line '---'");
    }
    return documents.empty() ? TreeNode() : Converter(file).convert(documents.front(), 0);
  } catch (const YAML::Exception& fault) {
    throw not_read(fault.msg, position_of(fault.mark, file)).hint(advice_on(fault.msg));
  }
}

TreeNode scalar(std::string text, const std::string& where) {
  TreeNode node;
  node.kind = TreeNode::Kind::Text;
  node.text = std::move(text);
  node.position.file = where;
  return node;
}

// A misspelt key must not be ignored: the job would run with a default that its author did not
// want.
void require_known(const TreeNode& map, std::span<const std::string> known) {
  for (const TreeEntry& entry : map.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) {
      continue;
    }
    Error error(ExitCode::Usage,
                fmt::format("cannot read {}: unknown key '{}'", entry.position.file, entry.key));
    error.fact("position", describe(entry.position));
    if (const auto closest = find_closest(entry.key, known)) {
      error.hint(*closest);
    } else {
      error.fact("available", join(known, ", "));
    }
    throw Error(error);
  }
}

}  // namespace lockstep::config
