// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// The keys of a job file (slurm_config.yaml). Each key is also a command-line option. The table
// contains the 33 keys of itwinai and the additional keys of lockstep.
namespace lockstep::slurm {

enum class KeyType { Text, Whole, Flag, List, Lines, Map };

// Groups of options in --help. Hidden options are accepted but not shown.
enum class KeyGroup { Job, Resources, Program, Environment, Container, Requeue, Itwinai, Hidden };

struct Key {
  std::string_view name;  // "num_nodes"; the flag is --num-nodes
  KeyType type = KeyType::Text;
  KeyGroup group = KeyGroup::Job;
  std::string_view value;          // type name in --help: "COUNT"
  std::string_view help;           // text in --help
  std::string_view default_value;  // default; can contain ${other_key}; empty: none
};

std::span<const Key> keys();

// Returns nullptr for an unknown name.
const Key* find_key(std::string_view name);

const std::vector<std::string>& key_names();

// Option name of a key: "num_nodes" becomes "--num-nodes".
std::string flag_of(std::string_view key);

// Heading of a group in --help; empty for Hidden.
std::string_view heading_of(KeyGroup group);

}  // namespace lockstep::slurm
