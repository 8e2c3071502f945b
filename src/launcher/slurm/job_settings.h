// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/config/yaml.h"
#include "lockstep/error.h"

namespace lockstep::slurm {

// Settings of a job by key, in layers: site profile, job file, command line. Later layers override
// earlier ones. Values can refer to other keys with ${key}. References are resolved when a value is
// read, so an override also applies to values that were set before it.
//
// Readers throw an Error (64) with the key, the source and the expected value.
class JobSettings {
 public:
  // Adds a layer. Maps such as `env` are merged, all other values are replaced. Throws for an
  // unknown key.
  void lay(const config::TreeNode& map);

  // Sets one key, like a later layer.
  void set(const std::string& key, config::TreeNode value);

  // Whether any layer sets the key; defaults do not count.
  bool has(std::string_view key) const;

  // Source of the value: "slurm_config.yaml:3:7", "command line", "default".
  std::string source_of(std::string_view key) const;

  // Empty if the key is not set and has no default.
  std::string text(std::string_view key) const;
  std::optional<std::string> find_text(std::string_view key) const;  // nullopt if empty
  std::optional<int> find_whole(std::string_view key, int minimum, int maximum) const;
  bool flag(std::string_view key) const;
  std::vector<std::string> list(std::string_view key) const;   // split at commas
  std::vector<std::string> lines(std::string_view key) const;  // not split
  std::vector<std::pair<std::string, std::string>> pairs(std::string_view key) const;

  // One of `words`; case is ignored.
  std::string one_of(std::string_view key, std::span<const std::string> words) const;

  // Replaces {key} in a text, as in training_cmd of itwinai.
  std::string fill_in(const std::string& text) const;

  // Makes an Error about the value of a key, with its source.
  Error refuse(std::string_view key, std::string_view sentence) const;

 private:
  std::optional<config::TreeNode> find_node(std::string_view key) const;
  config::TreeNode resolve(config::TreeNode node, int depth) const;
  std::string resolve_text(const config::TreeNode& node, int depth) const;
  std::optional<std::string> look_up(const std::string& name, int depth) const;
  std::optional<std::string> find_inserted(const std::string& name, std::string_view before) const;
  std::string as_word(const std::string& key,
                      const std::string& value,
                      std::string_view before) const;

  std::map<std::string, config::TreeNode, std::less<>> nodes_;
};

}  // namespace lockstep::slurm
