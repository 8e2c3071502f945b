// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// The keys of a job file (slurm_config.yaml), each of which is a flag too: itwinai's 33, and ours.
namespace lockstep::slurm {

enum class KeyType { Text, Whole, Flag, List, Lines, Map };

// By subject, as --help shows them.
enum class KeyGroup { Job, Resources, Program, Environment, Container, Requeue, Itwinai };

struct Key {
  std::string_view name;  // "num_nodes"; the flag is --num-nodes
  KeyType type = KeyType::Text;
  KeyGroup group = KeyGroup::Job;
  std::string_view value;     // what --help calls its value: "COUNT"
  std::string_view help;      // one sentence
  std::string_view standard;  // where nobody says anything; may use ${other_key}
};

std::span<const Key> keys();

const Key* find_key(std::string_view name);

const std::vector<std::string>& key_names();

// "--num-nodes"
std::string flag_of(std::string_view key);

// The heading under which --help lists the flags of a group.
std::string_view heading_of(KeyGroup group);

}  // namespace lockstep::slurm
