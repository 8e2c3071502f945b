// SPDX-License-Identifier: Apache-2.0
//
// Checks a tree against the table of keys. For each entry, in this order:
//
//   known key, else: suggest the section it belongs to, a top-level key, or the closest name
//   one spelling only, if the key has an alias
//   parameter of the chosen optimizer or scheduler
//   "auto" allowed, or type and range right
//   refused feature off; or descend into a section
//
// Paths are dotted from the root ("zero_optimization.stage"). null counts as absent everywhere.
#include "training/deepspeed/schema.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "common/base/text.h"

namespace lockstep::deepspeed {
namespace {

std::string_view parent_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

std::string_view leaf_of(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

std::string join_path(std::string_view parent, std::string_view leaf) {
  return parent.empty() ? std::string(leaf) : fmt::format("{}.{}", parent, leaf);
}

// Aliases are complete paths: "bfloat16.enabled" and its section "bfloat16" each have an entry.
const Key* find_key(std::string_view path) {
  const auto found = std::find_if(keys().begin(), keys().end(), [path](const Key& key) {
    return key.path == path || (!key.alias.empty() && key.alias == path);
  });
  return found == keys().end() ? nullptr : &*found;
}

bool has_word(std::string_view words, std::string_view word) {
  const std::vector<std::string> all = split(words, ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

// Names of the keys below `parent`, including aliases.
std::vector<std::string> names_below(std::string_view parent) {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    for (const std::string_view path : {key.path, key.alias}) {
      if (!path.empty() && parent_of(path) == parent) {
        names.emplace_back(leaf_of(path));
      }
    }
  }
  return names;
}

// The section of a key with this name, if there is exactly one below the top level. A frequent
// mistake is a key at the wrong level, such as "stage" at the top.
std::string find_home(std::string_view leaf) {
  std::string home;
  for (const Key& key : keys()) {
    if (leaf_of(key.path) != leaf) {
      continue;
    }
    if (!home.empty() && home != parent_of(key.path)) {
      return "";  // ambiguous, such as "enabled"
    }
    home = parent_of(key.path);
  }
  return home;
}

// For messages: "the string 'two'", "2", "a list".
std::string describe_value(const TreeNode& node) {
  switch (node.kind) {
    case TreeNode::Kind::Null:
      return "null";
    case TreeNode::Kind::Flag:
      return node.flag ? "true" : "false";
    case TreeNode::Kind::Whole:
      return std::to_string(node.whole);
    case TreeNode::Kind::Number:
      return fmt::format("{}", node.number);
    case TreeNode::Kind::Text:
      return fmt::format("the string '{}'", node.text);
    case TreeNode::Kind::List:
      return "a list";
    case TreeNode::Kind::Map:
      return "a section";
  }
  return "";
}

class Checker {
 public:
  Checker(const TreeNode& root, const std::string& source) : source_(source) {
    for (const char* section : {"optimizer", "scheduler"}) {
      const TreeNode* type = deepspeed::find(root, fmt::format("{}.type", section));
      if (type != nullptr && type->kind == TreeNode::Kind::Text) {
        (section[0] == 'o' ? optimizer_ : scheduler_) = to_lower(type->text);
      }
    }
  }

  // Recursion depth is that of the table: unknown sections are rejected before descending.
  void check_level(const TreeNode& map, const std::string& parent) const {
    for (const TreeEntry& entry : map.entries) {
      const std::string path = join_path(parent, entry.key);
      const Key* key = find_key(path);
      if (key == nullptr) {
        throw_unknown(entry, parent);
      }
      if (key->path != path) {
        require_one_spelling(map, *key, entry);
      }
      if (entry.value.kind != TreeNode::Kind::Null) {
        check(entry.value, path, *key);
      }
    }
  }

 private:
  [[noreturn]] void throw_unknown(const TreeEntry& entry, const std::string& parent) const {
    Error error(
        ExitCode::Usage,
        parent.empty()
            ? fmt::format("cannot read {}: unknown key '{}'", source_, entry.key)
            : fmt::format("cannot read {}: unknown key '{}' in {}", source_, entry.key, parent));
    error.fact("position", describe(entry.position));
    const std::vector<std::string> names = names_below(parent);
    const std::string home = find_home(entry.key);
    if (!home.empty()) {
      error.fact("note", fmt::format("'{}' is a key of {}", entry.key, home));
      error.hint(fmt::format("{}.{}", home, entry.key));
    } else if (const Key* top = find_key(entry.key); top != nullptr) {
      error.fact("note", fmt::format("'{}' is a top-level key", entry.key));
      error.hint(fmt::format("{}, outside of {}", entry.key, parent));
    } else if (const auto closest = find_closest(entry.key, names)) {
      error.hint(join_path(parent, *closest));
    } else {
      error.fact("available", join(names, ", "));
    }
    throw Error(error);
  }

  // An alias can also be in another section ("bfloat16.enabled"); both sections together are
  // rejected at the level of the sections.
  void require_one_spelling(const TreeNode& map, const Key& key, const TreeEntry& entry) const {
    const std::string_view first = leaf_of(key.path);
    if (const TreeNode* other = map.find(first); other != nullptr &&
                                                 other->kind != TreeNode::Kind::Null &&
                                                 parent_of(key.path) == parent_of(key.alias)) {
      throw Error(
          ExitCode::Usage,
          fmt::format("cannot read {}: '{}' and '{}' are the same key", source_, first, entry.key))
          .fact("first", describe(other->position))
          .fact("second", describe(entry.position))
          .hint("remove one of them");
    }
  }

  void check(const TreeNode& node, const std::string& path, const Key& key) const {
    require_owner(node, path, key);
    if (node.kind == TreeNode::Kind::Text && node.text == "auto" && key.type != Key::Type::Text) {
      if (!key.may_be_auto) {
        throw wrong(node, path, fmt::format("{}; \"auto\" is not allowed", expected(key)));
      }
      return;
    }
    require_type(node, path, key);
    if (key.treatment == Treatment::Refused) {
      require_off(node, path, key);
    } else if (key.type == Key::Type::Section) {
      check_level(node, path);
    }
  }

  // Some parameters belong to certain types only, such as "momentum" to SGD.
  void require_owner(const TreeNode& node, const std::string& path, const Key& key) const {
    const std::string& type = path.starts_with("optimizer.") ? optimizer_ : scheduler_;
    if (key.of.empty() || type.empty() || has_word(key.of, type)) {
      return;
    }
    throw not_usable(node, path, source_, fmt::format("{} has no such parameter", type))
        .fact("parameter of", join(split(key.of, ' '), ", "))
        .hint(fmt::format("remove {}", leaf_of(path)));
  }

  static std::string expected(const Key& key) {
    switch (key.type) {
      case Key::Type::Flag:
        return "true or false";
      case Key::Type::Whole:
        return key.minimum < -1 ? "a whole number"
                                : fmt::format("a whole number, at least {}", key.minimum);
      case Key::Type::Number:
        return fmt::format("a number, at least {}", key.minimum);
      case Key::Type::Text:
        return key.choices.empty() ? "a string" : join(split(key.choices, ' '), ", ");
      case Key::Type::Pair:
        return "a list of two numbers, at least 0 and below 1";
      case Key::Type::Section:
        return "a section: {...}";
      case Key::Type::Any:
        break;
    }
    return "";
  }

  Error wrong(const TreeNode& node, const std::string& path, const std::string& wanted) const {
    return Error(ExitCode::Usage, fmt::format("invalid value for {} in {}", path, source_))
        .fact("expected", wanted)
        .fact("found", describe_value(node), describe(node.position));
  }

  void require_type(const TreeNode& node, const std::string& path, const Key& key) const {
    if (fits(node, key)) {
      return;
    }
    Error error = wrong(node, path, expected(key));
    if (path == "zero_optimization" && node.kind == TreeNode::Kind::Flag) {
      error.hint(fmt::format(R"("zero_optimization": {{"stage": {}}})", node.flag ? 1 : 0));
    } else if (node.kind == TreeNode::Kind::Text && key.type == Key::Type::Text) {
      const std::vector<std::string> choices = split(key.choices, ' ');
      error.hint(
          fmt::format(R"("{}")", find_closest(node.text, choices).value_or(choices.front())));
    } else if (node.kind == TreeNode::Kind::Text) {
      error.hint(key.may_be_auto ? "the value without quotes, or \"auto\""
                                 : "the value without quotes");
    }
    throw Error(error);
  }

  static bool fits(const TreeNode& node, const Key& key) {
    switch (key.type) {
      case Key::Type::Flag:
        return node.kind == TreeNode::Kind::Flag;
      case Key::Type::Whole:
        return node.kind == TreeNode::Kind::Whole && node.number >= key.minimum;
      case Key::Type::Number:
        return (node.kind == TreeNode::Kind::Whole || node.kind == TreeNode::Kind::Number) &&
               node.number >= key.minimum;
      case Key::Type::Text:
        return node.kind == TreeNode::Kind::Text &&
               (key.choices.empty() || has_word(key.choices, node.text));
      case Key::Type::Pair:
        return is_pair(node);
      case Key::Type::Section:
        return node.kind == TreeNode::Kind::Map;
      case Key::Type::Any:
        break;
    }
    return true;
  }

  static bool is_pair(const TreeNode& node) {
    return node.kind == TreeNode::Kind::List && node.items.size() == 2 &&
           std::all_of(node.items.begin(), node.items.end(), [](const TreeNode& item) {
             return (item.kind == TreeNode::Kind::Whole || item.kind == TreeNode::Kind::Number) &&
                    item.number >= 0 && item.number < 1;
           });
  }

  // A refused key whose value turns the feature off has no effect in DeepSpeed either; such entries
  // are common in files that were generated from templates.
  static bool asks_for_nothing(const TreeNode& node, const Key& key) {
    switch (node.kind) {
      case TreeNode::Kind::Map: {
        const TreeNode* enabled = node.find("enabled");
        return node.entries.empty() ||
               (enabled != nullptr && enabled->kind == TreeNode::Kind::Flag && !enabled->flag);
      }
      case TreeNode::Kind::Flag:
        return (node.flag ? "true" : "false") == key.off;
      case TreeNode::Kind::Whole:
        return std::to_string(node.whole) == key.off;
      default:
        return false;
    }
  }

  void require_off(const TreeNode& node, const std::string& path, const Key& key) const {
    // 0 and 1 both mean one group, -1 and 0 no group.
    const bool is_zero = node.kind == TreeNode::Kind::Whole && node.whole == 0;
    const bool counts_groups = path.ends_with("hpz_partition_size") || path.ends_with("shard_size");
    if (asks_for_nothing(node, key) || (is_zero && counts_groups)) {
      return;
    }
    const std::string value = key.type == Key::Type::Section ? "" : " " + describe_value(node);
    throw Error(ExitCode::Usage,
                fmt::format("cannot use {}{}: lockstep does not support it", path, value))
        .fact("requested", path, describe(node.position))
        .hint(key.instead);
  }

  const std::string& source_;
  std::string optimizer_;
  std::string scheduler_;
};

}  // namespace

void require_schema(const TreeNode& root, const std::string& source) {
  if (root.kind != TreeNode::Kind::Map) {
    throw Error(ExitCode::Usage, fmt::format("cannot read {}: not a JSON object", source))
        .fact("expected", "{...}")
        .fact("found", describe_value(root), describe(root.position));
  }
  Checker(root, source).check_level(root, "");
}

// The canonical path wins over the alias.
const TreeNode* find(const TreeNode& root, std::string_view path) {
  const auto follow = [&root](std::string_view way) -> const TreeNode* {
    const TreeNode* node = &root;
    for (const std::string& name : split(way, '.')) {
      node = node->kind == TreeNode::Kind::Map ? node->find(name) : nullptr;
      if (node == nullptr) {
        return nullptr;
      }
    }
    return node->kind == TreeNode::Kind::Null ? nullptr : node;
  };
  if (const TreeNode* node = follow(path)) {
    return node;
  }
  const Key* key = find_key(path);
  return key == nullptr || key->alias.empty() ? nullptr : follow(key->alias);
}

Error not_usable(const TreeNode& node,
                 std::string_view path,
                 const std::string& source,
                 std::string_view why) {
  return Error(ExitCode::Usage, fmt::format("cannot use {} in {}: {}", path, source, why))
      .fact("found", describe_value(node), describe(node.position));
}

}  // namespace lockstep::deepspeed
