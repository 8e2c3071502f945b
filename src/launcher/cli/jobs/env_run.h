// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/os/environment.h"

namespace lockstep::cli {

// Runs a bash script on this machine with this terminal and returns its exit code. SIGINT, SIGTERM
// and SIGHUP are forwarded to the process group of the script.
int run_script(const std::string& script, const os::Environment& environment);

}  // namespace lockstep::cli
