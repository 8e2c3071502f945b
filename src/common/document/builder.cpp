// SPDX-License-Identifier: Apache-2.0
#include "common/document/builder.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"

namespace lockstep::document {
namespace {

struct Extent {
  size_t nodes = 1;
  size_t depth = 0;  // of a scalar
};

Extent measure(const TreeNode& node) {
  Extent extent;
  const auto add = [&extent](const TreeNode& child) {
    const Extent inner = measure(child);
    extent.nodes += inner.nodes;
    extent.depth = std::max(extent.depth, inner.depth);
  };
  for (const TreeNode& item : node.items) {
    add(item);
  }
  for (const TreeEntry& entry : node.entries) {
    add(entry.value);
  }
  const bool is_container = node.kind == TreeNode::Kind::List || node.kind == TreeNode::Kind::Map;
  extent.depth += is_container ? 1 : 0;
  return extent;
}

}  // namespace

void require_size(std::string_view text, const std::string& file) {
  if (text.size() > kMaxBytes) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot read {}: it is larger than {}", file, format_bytes(kMaxBytes)))
        .fact("size", format_bytes(text.size()));
  }
}

// Parsers usually keep one of two equal keys and drop the other without a message.
void TreeBuilder::key(const std::string& name, const Position& position) {
  Open& map = open_.back();
  map.key = name;
  map.key_position = position;
  if (map.keys.insert(name).second) {
    return;
  }
  const auto earlier = std::find_if(map.node.entries.begin(),
                                    map.node.entries.end(),
                                    [&name](const TreeEntry& entry) { return entry.key == name; });
  throw not_read(fmt::format("duplicate key '{}'", path()), position)
      .fact("first", describe(earlier->position))
      .hint("remove one of them");
}

void TreeBuilder::put(TreeNode node) {
  require_room(node);
  add(std::move(node));
}

void TreeBuilder::open(TreeNode::Kind kind, const Position& position) {
  TreeNode node;
  node.kind = kind;
  node.position = position;
  require_room(node);
  open_.push_back({.node = std::move(node), .key = "", .key_position = {}, .keys = {}});
}

const TreeNode& TreeBuilder::close() {
  TreeNode node = std::move(open_.back().node);
  open_.pop_back();
  return add(std::move(node));
}

// A subtree is measured before it is added: an alias of YAML repeats one that was counted already,
// so this costs at most kMaxNodes per file and one more subtree. The depth of aliases counts as
// well, because copies and destructors of a tree recurse.
void TreeBuilder::require_room(const TreeNode& node) {
  const Extent extent = measure(node);
  nodes_ += extent.nodes;
  if (open_.size() + extent.depth > kMaxDepth) {
    throw not_read(fmt::format("more than {} levels of nesting", kMaxDepth), node.position);
  }
  if (nodes_ > kMaxNodes) {
    throw not_read(fmt::format("it has more than {} values", format_count(kMaxNodes)),
                   node.position);
  }
}

const TreeNode& TreeBuilder::add(TreeNode node) {
  if (open_.empty()) {
    root_ = std::move(node);
    return root_;
  }
  Open& outer = open_.back();
  if (outer.node.kind == TreeNode::Kind::Map) {
    outer.node.entries.push_back({outer.key, outer.key_position, std::move(node)});
    return outer.node.entries.back().value;
  }
  outer.node.items.push_back(std::move(node));
  return outer.node.items.back();
}

// "zero_optimization.stage".
std::string TreeBuilder::path() const {
  std::vector<std::string> names;
  for (const Open& each : open_) {
    names.push_back(each.key);
  }
  return join(names, ".");
}

}  // namespace lockstep::document
