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

#include "config/yaml.h"
#include "lockstep/error.h"

namespace lockstep::slurm {

// What was said about a job, by key: a site's profile, over it the job's file, over it the command
// line. Values may refer to others with ${key}; they are looked up when they are read, so that a
// later layer counts everywhere.
//
// Readers throw an Error (64) that names key, place and what was expected.
class JobSettings {
 public:
  // Lays a map over what is there; maps such as `env` are joined, everything else is replaced.
  // Throws for a key that does not exist.
  void lay(const config::Node& map);

  // As if a later layer said so.
  void set(const std::string& key, config::Node value);

  // Whether somebody has said something, not counting the standard value.
  bool has(std::string_view key) const;

  // Where it was said: "slurm_config.yaml:3:7", "command line", "default".
  std::string source_of(std::string_view key) const;

  // Empty where nobody has said anything and there is no standard.
  std::string text(std::string_view key) const;
  std::optional<std::string> find_text(std::string_view key) const;  // nothing if it would be empty
  std::optional<int> find_whole(std::string_view key, int least, int most) const;
  bool flag(std::string_view key) const;
  std::vector<std::string> list(std::string_view key) const;   // pieces between commas
  std::vector<std::string> lines(std::string_view key) const;  // whole
  std::vector<std::pair<std::string, std::string>> pairs(std::string_view key) const;

  // One of `words`, in any case.
  std::string one_of(std::string_view key, std::span<const std::string> words) const;

  // A text with {key} replaced too, as itwinai's training_cmd has it.
  std::string fill_in(const std::string& text) const;

  // An Error about the value of a key, with its place.
  Error refuse(std::string_view key, std::string_view sentence) const;

 private:
  std::optional<config::Node> find_node(std::string_view key) const;
  config::Node resolve(config::Node node, int depth) const;
  std::string resolve_text(const config::Node& node, int depth) const;
  std::optional<std::string> look_up(const std::string& name, int depth) const;

  std::map<std::string, config::Node, std::less<>> nodes_;
};

}  // namespace lockstep::slurm
