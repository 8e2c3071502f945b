// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/yaml.h"

namespace lockstep::config {

// What a name in ${name} stands for; nothing: it is not ours.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// Puts values for ${name} in a text. What is written like a key (small letters, digits, _) must be
// known; what is not (${SLURM_JOB_ID}, ${x:-y}) is the shell's and stays. $${name} is a literal
// ${name}. `known` proposes the closest. Throws an Error (64) with the place of `node`.
std::string interpolate(const Node& node, const Lookup& lookup, std::span<const std::string> known);

}  // namespace lockstep::config
