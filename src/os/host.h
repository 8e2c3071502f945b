// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::os {

// The name of this machine.
std::string host_name();

// The local time as 20240131-093000, for names of files.
std::string local_timestamp();

}  // namespace lockstep::os
