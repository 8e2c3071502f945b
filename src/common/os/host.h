// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::os {

// The host name of this machine.
std::string host_name();

// The local time as 20240131-093000, for file names.
std::string local_timestamp();

// All addresses of a host name, or of an address as text; none if it is unknown.
std::vector<std::string> addresses_of(const std::string& name);

// The path of the executable of this process.
std::string own_executable();

}  // namespace lockstep::os
