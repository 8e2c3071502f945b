// SPDX-License-Identifier: Apache-2.0
#include "launcher/config/yaml.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <sstream>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "common/base/text.h"
#include "common/document/builder.h"
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

// Builds the tree from the events of yaml-cpp. Its own nodes are not used: they cannot be limited,
// and an alias would be expanded after all memory is in use.
//
// yaml-cpp reports a key like any other value: the values of a map alternate between keys and
// values.
class Handler : public YAML::EventHandler {
 public:
  explicit Handler(const std::string& file) : file_(file) {}

  TreeNode take() { return builder_.take(); }
  bool has_content() const { return has_content_; }
  const Position& begin() const { return begin_; }

  void OnDocumentStart(const YAML::Mark& mark) override { begin_ = position_of(mark, file_); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    TreeNode node;
    node.position = position_of(mark, file_);
    put(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& /*tag*/,
                YAML::anchor_t anchor,
                const std::string& value) override {
    has_content_ = true;
    TreeNode node;
    node.kind = TreeNode::Kind::Text;
    node.text = value;
    node.position = position_of(mark, file_);
    put(std::move(node), anchor);
  }

  // The anchor of a container is known when the container is complete. An alias inside of it would
  // never end.
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) {
      throw not_read("an alias refers to the value that contains it", position_of(mark, file_));
    }
    put(TreeNode(found->second), YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& /*tag*/,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(TreeNode::Kind::List, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark,
                  const std::string& /*tag*/,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(TreeNode::Kind::Map, mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    bool expects_key;
    bool is_map;
    YAML::anchor_t anchor;
  };

  bool expects_key() const { return !levels_.empty() && levels_.back().expects_key; }

  // After a key comes its value, and after that the next key.
  void toggle() {
    if (!levels_.empty() && levels_.back().is_map) {
      levels_.back().expects_key = !levels_.back().expects_key;
    }
  }

  // Anchors can be nested, so that one value is copied for each of them.
  void keep(YAML::anchor_t anchor, const TreeNode& node) {
    if (anchor != YAML::NullAnchor) {
      builder_.require_room(node);
      anchored_.insert_or_assign(anchor, node);
    }
  }

  void put(TreeNode node, YAML::anchor_t anchor) {
    keep(anchor, node);
    if (expects_key()) {
      if (node.kind != TreeNode::Kind::Text) {
        throw not_read(kKeyIsNoWord, node.position);
      }
      builder_.key(node.text, node.position);
    } else {
      builder_.put(std::move(node));
    }
    toggle();
  }

  void open(TreeNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    has_content_ = true;
    const Position position = position_of(mark, file_);
    if (expects_key()) {
      throw not_read(kKeyIsNoWord, position);
    }
    builder_.open(kind, position);
    const bool is_map = kind == TreeNode::Kind::Map;
    levels_.push_back({.expects_key = is_map, .is_map = is_map, .anchor = anchor});
  }

  void close() {
    keep(levels_.back().anchor, builder_.close());
    levels_.pop_back();
    toggle();
  }

  static constexpr const char* kKeyIsNoWord = "a key must be one word";
  const std::string& file_;
  document::TreeBuilder builder_;
  std::vector<Level> levels_;
  std::map<YAML::anchor_t, TreeNode> anchored_;
  Position begin_;
  bool has_content_ = false;
};

}  // namespace

// A second document is an error instead of being ignored. yaml-cpp 0.7 does not read past a comma
// outside of brackets and finds documents there without end: the second one is the last.
TreeNode parse_yaml(std::string_view text, const std::string& file) {
  document::require_size(text, file);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Handler first(file);
    if (!parser.HandleNextDocument(first)) {
      return {};
    }
    Handler second(file);
    if (parser.HandleNextDocument(second)) {
      throw not_read(second.has_content() ? "it has more than one document"
                                          : "unexpected text after the end of the document",
                     second.begin())
          .hint(second.has_content() ? "use one file for each, without the line '---'"
                                     : "remove it: a file has one document");
    }
    return first.take();
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
