// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "launcher/doctor/facts.h"

namespace lockstep::doctor {

// JSON keys are the names of the struct members.
nlohmann::json json_of(const NodeFacts& facts);
nlohmann::json json_of(const SlurmFacts& facts);
nlohmann::json json_of(const CrossNodeFacts& facts);

}  // namespace lockstep::doctor
