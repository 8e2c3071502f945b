// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/collect.h"

// What a survey asks of a node's agent, and what the agent answers: one line of JSON each.
namespace lockstep::doctor {

// What does your clock say?
std::string clock_question();
std::optional<double> find_clock(const std::string& answer);

// Which GID of RoCE stands for this interface?
std::string gid_question(const std::string& interface);
std::optional<int> find_gid(const std::string& answer);

// What have you got? The answer is read by parse_node_facts().
std::string facts_question(const CollectOptions& options);

// The agent's side: the answer to any of them; empty to what is no question.
std::string answer(const std::string& question);

// The time of day in seconds since the epoch.
double wall_seconds();

}  // namespace lockstep::doctor
