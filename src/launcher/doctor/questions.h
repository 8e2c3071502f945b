// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/doctor/collect.h"

// Questions of a survey to the agents and their answers: one line of JSON each.
namespace lockstep::doctor {

// Time of day on the node.
std::string clock_question();
std::optional<double> find_clock(const std::string& answer);

// RoCE GID index of an interface.
std::string gid_question(const std::string& interface);
std::optional<int> find_gid(const std::string& answer);

// Facts of the node. parse_node_facts() parses the answer.
std::string facts_question(const CollectOptions& options);

// Answers any question; called by the agent. Empty for an unknown question.
std::string answer(const std::string& question);

}  // namespace lockstep::doctor
