// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "os/environment.h"

namespace lockstep::cli {

// Runs a script of bash's here to its end, as if it had been typed, and returns its code. A signal
// that asks us to stop is handed on to all that the script has started.
int run_script(const std::string& script, const os::Environment& environment);

}  // namespace lockstep::cli
