// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "os/command.h"
#include "os/environment.h"

namespace lockstep::doctor {

// What another program says within `limit`. Nothing when it is not installed, cannot be started or
// did not end in time: the doctor asks many programs, and can do without any answer.
std::optional<os::CommandResult> find_answer(const std::vector<std::string>& arguments,
                                             const os::Environment& environment,
                                             std::chrono::milliseconds limit);

}  // namespace lockstep::doctor
