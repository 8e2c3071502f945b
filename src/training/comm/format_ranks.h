// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::comm {

// Formats ascending ranks for messages: "rank 3", "ranks 0-5, 7".
std::string format_ranks(const std::vector<int>& ranks);

}  // namespace lockstep::comm
