// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::os {

// The name of this machine.
std::string host_name();

// The local time as 20240131-093000, for names of files.
std::string local_timestamp();

// Every address that a name, or an address as text, stands for; none when it is unknown.
std::vector<std::string> addresses_of(const std::string& name);

// The path of the program that this process runs.
std::string own_executable();

}  // namespace lockstep::os
