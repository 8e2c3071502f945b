// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/config/yaml.h"

namespace lockstep::config {

// The value of a name in ${name}; nothing if the name is unknown.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// Replaces ${name} in a text. A name in the form of a key (small letters, digits, _) must be known;
// others (${SLURM_JOB_ID}, ${x:-y}) are left to the shell. $${name} becomes a literal ${name}.
// `known` provides suggestions. Throws an Error (64) with the position of `node`.
std::string interpolate(const TreeNode& node,
                        const Lookup& lookup,
                        std::span<const std::string> known);

}  // namespace lockstep::config
