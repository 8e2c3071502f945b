// SPDX-License-Identifier: Apache-2.0
//
// Settings are kept as YAML nodes with their positions and are resolved when they are read:
//
//   site profile  <  job file  <  command line        lay(), set(): later layers have precedence
//                      |
//   "runs/${job_name}" |  resolve(): ${key} looks up the final value of the other key
//                      v
//   text(), find_whole(), list(), ...                 typed, with the source for errors
//
// Resolution at reading time is what lets a sweep override one key and get new names of all files
// that refer to it.
#include "launcher/slurm/job_settings.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/text.h"
#include "launcher/config/interpolate.h"
#include "launcher/config/value.h"
#include "launcher/slurm/keys.h"
#include "launcher/slurm/shell_text.h"

namespace lockstep::slurm {
namespace {

constexpr int kDeepest = 16;  // nesting limit of references; deeper nesting is a cycle

// {distributed_stratgy} is a misspelled key, not shell syntax.
void require_no_slip(const std::string& name, bool is_known) {
  constexpr size_t kMinimum = 6;  // short words resemble too many keys
  const bool is_word = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
  if (is_known || !is_word || name.size() < kMinimum) {
    return;
  }
  if (const auto closest = find_closest(name, key_names())) {
    throw Error(ExitCode::Usage, fmt::format("unknown key {{{}}}", name))
        .hint(fmt::format("{{{}}}", *closest));
  }
}

// Entries of `above` replace those of `below` with the same key. Only maps (`env`) are merged. A
// list in the job file replaces the list of the site: otherwise a user could not remove a module.
config::TreeNode join_maps(config::TreeNode below, const config::TreeNode& above) {
  if (below.kind != config::TreeNode::Kind::Map || above.kind != config::TreeNode::Kind::Map) {
    return above;
  }
  for (const config::TreeEntry& entry : above.entries) {
    const auto same = std::find_if(below.entries.begin(), below.entries.end(), [&](const auto& e) {
      return e.key == entry.key;
    });
    if (same == below.entries.end()) {
      below.entries.push_back(entry);
    } else {
      *same = entry;
    }
  }
  return below;
}

}  // namespace

void JobSettings::lay(const config::TreeNode& map) {
  config::require_known(map, key_names());
  for (const config::TreeEntry& entry : map.entries) {
    const auto earlier = nodes_.find(entry.key);
    nodes_[entry.key] =
        earlier == nodes_.end() ? entry.value : join_maps(earlier->second, entry.value);
  }
}

void JobSettings::set(const std::string& key, config::TreeNode value) {
  LOCKSTEP_CHECK(find_key(key) != nullptr);
  nodes_[key] = std::move(value);
}

bool JobSettings::has(std::string_view key) const {
  const auto found = nodes_.find(key);
  return found != nodes_.end() && found->second.kind != config::TreeNode::Kind::Null;
}

std::string JobSettings::source_of(std::string_view key) const {
  const auto found = nodes_.find(key);
  return found == nodes_.end() ? "default" : config::describe(found->second.position);
}

std::optional<config::TreeNode> JobSettings::find_node(std::string_view key) const {
  if (has(key)) {
    return resolve(nodes_.find(key)->second, 0);
  }
  const Key* known = find_key(key);
  LOCKSTEP_CHECK(known != nullptr);
  if (known->default_value.empty()) {
    return std::nullopt;
  }
  return resolve(config::scalar(std::string(known->default_value), "default"), 0);
}

config::TreeNode JobSettings::resolve(config::TreeNode node, int depth) const {
  if (node.kind == config::TreeNode::Kind::Text) {
    node.text = resolve_text(node, depth);
  }
  for (config::TreeNode& item : node.items) {
    item = resolve(item, depth);
  }
  for (config::TreeEntry& entry : node.entries) {
    entry.value = resolve(entry.value, depth);
  }
  return node;
}

// ${NAME} that is not a key stays as it is: the shell of the job expands it.
std::string JobSettings::resolve_text(const config::TreeNode& node, int depth) const {
  if (depth > kDeepest) {
    throw Error(ExitCode::Usage, "circular references")
        .fact("position", config::describe(node.position))
        .fact("found", node.text)
        .hint("replace one of them by its value");
  }
  return config::interpolate(
      node,
      [this, depth](const std::string& name) { return look_up(name, depth + 1); },
      key_names());
}

// A list within a text becomes comma-separated, as sbatch expects it.
std::optional<std::string> JobSettings::look_up(const std::string& name, int depth) const {
  const Key* key = find_key(name);
  if (key == nullptr) {
    return std::nullopt;
  }
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second.kind == config::TreeNode::Kind::Null) {
    return resolve_text(config::scalar(std::string(key->default_value), "default"), depth);
  }
  const config::TreeNode node = resolve(found->second, depth);
  return node.kind == config::TreeNode::Kind::List ? join(config::read_lines(node, name), ",")
                                                   : config::read_text(node, name);
}

std::string JobSettings::text(std::string_view key) const {
  const auto node = find_node(key);
  return node ? config::read_text(*node, key) : "";
}

std::optional<std::string> JobSettings::find_text(std::string_view key) const {
  std::string found = text(key);
  return found.empty() ? std::nullopt : std::optional(std::move(found));
}

std::optional<int> JobSettings::find_whole(std::string_view key, int minimum, int maximum) const {
  const auto node = find_node(key);
  if (!node) {
    return std::nullopt;
  }
  return static_cast<int>(config::read_whole(*node, key, {.minimum = minimum, .maximum = maximum}));
}

bool JobSettings::flag(std::string_view key) const {
  const auto node = find_node(key);
  return node && config::read_flag(*node, key);
}

std::vector<std::string> JobSettings::list(std::string_view key) const {
  const auto node = find_node(key);
  return node ? config::read_list(*node, key) : std::vector<std::string>{};
}

std::vector<std::string> JobSettings::lines(std::string_view key) const {
  const auto node = find_node(key);
  return node ? config::read_lines(*node, key) : std::vector<std::string>{};
}

std::vector<std::pair<std::string, std::string>> JobSettings::pairs(std::string_view key) const {
  const auto node = find_node(key);
  return node ? config::read_pairs(*node, key) : std::vector<std::pair<std::string, std::string>>{};
}

std::string JobSettings::one_of(std::string_view key, std::span<const std::string> words) const {
  std::string found = to_lower(text(key));
  if (std::find(words.begin(), words.end(), found) != words.end()) {
    return found;
  }
  Error error(ExitCode::Usage, fmt::format("invalid value '{}' for {}", text(key), key));
  error.fact("expected", join(words, ", "));
  error.fact("found", fmt::format("'{}'", text(key)), source_of(key));
  if (const auto closest = find_closest(found, words)) {
    error.hint(fmt::format("{}: {}", key, *closest));
  }
  throw Error(error);
}

// Inserts a name as one word, so that "my run" stays one argument and $(command) is not run. $NAME
// is expanded by the shell, as in other keys. Inside of quotes, the value gets no further ones.
std::string JobSettings::as_word(const std::string& key,
                                 const std::string& value,
                                 std::string_view before) const {
  char quote = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == '\\' && quote != '\'') {
      ++i;
    } else if (quote == 0 && (before[i] == '"' || before[i] == '\'')) {
      quote = before[i];
    } else if (before[i] == quote) {
      quote = 0;
    }
  }
  if (quote == '\'') {
    if (value.find('\'') != std::string::npos) {
      throw refuse(key, fmt::format("cannot insert {} between single quotes", key))
          .hint(fmt::format("write {{{}}} without quotes", key));
    }
    return value;
  }
  const std::string quoted = in_quotes(value);
  if (quote == '"') {
    return quoted.substr(1, quoted.size() - 2);
  }
  return quote_for_shell(value) == value ? value : quoted;
}

// The text for {name} after the text `before`; nothing if it is not a key.
std::optional<std::string> JobSettings::find_inserted(const std::string& name,
                                                      std::string_view before) const {
  if (before.ends_with('$')) {
    return std::nullopt;  // ${name} is for the shell
  }
  if (name == "itwinai_launcher") {
    return "$(which itwinai)";
  }
  const auto value = look_up(name, 0);
  require_no_slip(name, value.has_value());
  const Key* key = find_key(name);
  const bool is_name = key != nullptr && key->group == KeyGroup::Itwinai;
  return value && is_name ? as_word(name, *value, before) : value;
}

// Scans once and does not scan inserted values again, so that a value with braces is not expanded
// twice.
std::string JobSettings::fill_in(const std::string& text) const {
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    const size_t start = text.find('{', at);
    const size_t end = start == std::string::npos ? start : text.find('}', start);
    if (end == std::string::npos) {
      break;
    }
    const std::string name = text.substr(start + 1, end - start - 1);
    const auto value = find_inserted(name, std::string_view(text).substr(0, start));
    // Skip one brace if the name is not a key: {a,b} and ${x} are shell syntax.
    result += value ? text.substr(at, start - at) + *value : text.substr(at, start + 1 - at);
    at = value ? end + 1 : start + 1;
  }
  return result + text.substr(std::min(at, text.size()));
}

Error JobSettings::refuse(std::string_view key, std::string_view sentence) const {
  Error error(ExitCode::Usage, sentence);
  const auto node = find_node(key);
  const bool is_list = node && node->kind == config::TreeNode::Kind::List;
  std::string said = is_list ? "[" + join(lines(key), ", ") + "]" : text(key);
  said = join(split(said, '\n'), "\\n");  // a fact is one line
  error.fact("requested", fmt::format("{}: {}", key, said), source_of(key));
  return error;
}

}  // namespace lockstep::slurm
