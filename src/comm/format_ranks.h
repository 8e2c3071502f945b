// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::comm {

// Ascending ranks as every message writes them: "rank 3", "ranks 0-5, 7".
std::string format_ranks(const std::vector<int>& ranks);

}  // namespace lockstep::comm
