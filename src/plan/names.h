// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace lockstep::plan {

// Names of machines as short as Slurm writes them: "n[1-4,7],login". Reads back with
// cluster::expand_hostlist, in the same order.
std::string fold_names(std::span<const std::string> names);

}  // namespace lockstep::plan
