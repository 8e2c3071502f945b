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

constexpr int kDeepest = 32;  // deeper nesting is a mistake or an attack, not a configuration

// yaml-cpp counts from 0, and returns -1 for an unknown position.
Position place_of(const YAML::Mark& mark, const std::string& file) {
  return {.file = file, .line = std::max(mark.line, 0) + 1, .column = std::max(mark.column, 0) + 1};
}

Error not_read(const std::string& why, const Position& position) {
  return Error(ExitCode::Usage, fmt::format("cannot read {}: {}", position.file, why))
      .fact("where", describe(position));
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

class Converter {
 public:
  explicit Converter(const std::string& file) : file_(file) {}

  YamlNode convert(const YAML::Node& from, int depth) const {
    YamlNode node;
    node.position = place_of(from.Mark(), file_);
    if (depth > kDeepest) {
      throw not_read(fmt::format("more than {} levels of nesting", kDeepest), node.position);
    }
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        node.kind = YamlNode::Kind::Scalar;
        node.text = from.Scalar();
        break;
      case YAML::NodeType::Sequence:
        node.kind = YamlNode::Kind::List;
        for (const auto& item : from) {
          node.items.push_back(convert(item, depth + 1));
        }
        break;
      case YAML::NodeType::Map:
        node.kind = YamlNode::Kind::Map;
        for (const auto& entry : from) {
          add(node, entry.first, convert(entry.second, depth + 1));
        }
        break;
    }
    return node;
  }

 private:
  void add(YamlNode& map, const YAML::Node& key, YamlNode value) const {
    const Position position = place_of(key.Mark(), file_);
    if (!key.IsScalar()) {
      throw not_read("a key must be one word", position);
    }
    for (const YamlEntry& earlier : map.entries) {
      if (earlier.key == key.Scalar()) {
        throw not_read(fmt::format("duplicate key '{}'", earlier.key), position)
            .fact("first", describe(earlier.position))
            .hint("remove one of them");
      }
    }
    map.entries.push_back({key.Scalar(), position, std::move(value)});
  }

  const std::string& file_;
};

}  // namespace

std::string describe(const Position& position) {
  return position.line == 0
             ? position.file
             : fmt::format("{}:{}:{}", position.file, position.line, position.column);
}

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto found = std::find_if(
      entries.begin(), entries.end(), [key](const YamlEntry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

YamlNode parse_yaml(std::string_view text, const std::string& file) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) {
      throw not_read("it has more than one document", place_of(documents[1].Mark(), file))
          .hint("use one file for each, without the line '---'");
    }
    return documents.empty() ? YamlNode() : Converter(file).convert(documents.front(), 0);
  } catch (const YAML::Exception& fault) {
    throw not_read(fault.msg, place_of(fault.mark, file)).hint(advice_on(fault.msg));
  }
}

YamlNode scalar(std::string text, const std::string& where) {
  YamlNode node;
  node.kind = YamlNode::Kind::Scalar;
  node.text = std::move(text);
  node.position.file = where;
  return node;
}

void require_known(const YamlNode& map, std::span<const std::string> known) {
  for (const YamlEntry& entry : map.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) {
      continue;
    }
    Error error(ExitCode::Usage,
                fmt::format("cannot read {}: unknown key '{}'", entry.position.file, entry.key));
    error.fact("where", describe(entry.position));
    if (const auto closest = find_closest(entry.key, known)) {
      error.hint(*closest);
    } else {
      error.fact("known", join(known, ", "));
    }
    throw Error(error);
  }
}

}  // namespace lockstep::config
