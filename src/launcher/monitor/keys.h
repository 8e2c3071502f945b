// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::monitor {

// Translates the bytes that a terminal sends into the names of keys that press() accepts. Unknown
// escape sequences are dropped. An Escape at the end of `bytes` is the Escape key.
std::vector<std::string> keys_of(std::string_view bytes);

}  // namespace lockstep::monitor
