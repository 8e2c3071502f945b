// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::os {

// Names the calling thread for top, gdb and the like; what is longer than 15 letters is cut.
void name_this_thread(const std::string& name);

}  // namespace lockstep::os
