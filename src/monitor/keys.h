// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::monitor {

// What a terminal sends for keys, as the names that press() takes. Pure. A sequence that is none of
// these is left out; an Escape that nothing follows is the key.
std::vector<std::string> keys_of(std::string_view bytes);

}  // namespace lockstep::monitor
