// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::os {

// Names the calling thread for top, gdb and similar tools; truncated to 15 characters.
void name_this_thread(const std::string& name);

}  // namespace lockstep::os
