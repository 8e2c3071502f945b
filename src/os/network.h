// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::os {

// The address that this machine would use as its own when it talks to `host`; sends nothing.
// Nothing when the name does not resolve or there is no route.
std::optional<std::string> find_local_address_towards(const std::string& host);

// The names of this machine's network interfaces.
std::vector<std::string> interface_names();

}  // namespace lockstep::os
