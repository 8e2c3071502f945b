// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace lockstep::plan {

// Compresses host names into Slurm's hostlist format: "n[1-4,7],login". cluster::expand_hostlist
// restores them in the same order.
std::string to_hostlist(std::span<const std::string> names);

}  // namespace lockstep::plan
