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
Place place_of(const YAML::Mark& mark, const std::string& file) {
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

class Converter {
 public:
  explicit Converter(const std::string& file) : file_(file) {}

  Node convert(const YAML::Node& from, int depth) const {
    Node node;
    node.place = place_of(from.Mark(), file_);
    if (depth > document::kDeepest) {
      throw document::too_deep(node.place);
    }
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        node.kind = Node::Kind::Text;
        node.text = from.Scalar();
        break;
      case YAML::NodeType::Sequence:
        node.kind = Node::Kind::List;
        for (const auto& item : from) {
          node.items.push_back(convert(item, depth + 1));
        }
        break;
      case YAML::NodeType::Map:
        node.kind = Node::Kind::Map;
        for (const auto& entry : from) {
          add(node, entry.first, convert(entry.second, depth + 1));
        }
        break;
    }
    return node;
  }

 private:
  void add(Node& map, const YAML::Node& key, Node value) const {
    const Place place = place_of(key.Mark(), file_);
    if (!key.IsScalar()) {
      throw not_read("a key must be one word", place);
    }
    document::require_new_key(map, key.Scalar(), place, key.Scalar());
    map.entries.push_back({key.Scalar(), place, std::move(value)});
  }

  const std::string& file_;
};

}  // namespace

Node parse_yaml(std::string_view text, const std::string& file) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) {
      throw not_read("it has more than one document", place_of(documents[1].Mark(), file))
          .hint("use one file for each, without the line '---'");
    }
    return documents.empty() ? Node() : Converter(file).convert(documents.front(), 0);
  } catch (const YAML::Exception& fault) {
    throw not_read(fault.msg, place_of(fault.mark, file)).hint(advice_on(fault.msg));
  }
}

Node scalar(std::string text, const std::string& where) {
  Node node;
  node.kind = Node::Kind::Text;
  node.text = std::move(text);
  node.place.file = where;
  return node;
}

void require_known(const Node& map, std::span<const std::string> known) {
  for (const Entry& entry : map.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) {
      continue;
    }
    Error error(ExitCode::Usage,
                fmt::format("cannot read {}: unknown key '{}'", entry.place.file, entry.key));
    error.fact("where", describe(entry.place));
    if (const auto closest = find_closest(entry.key, known)) {
      error.hint(*closest);
    } else {
      error.fact("known", join(known, ", "));
    }
    throw Error(error);
  }
}

}  // namespace lockstep::config
