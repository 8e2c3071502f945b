// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/os/command.h"
#include "common/os/environment.h"

namespace lockstep::doctor {

// Runs a program with the timeout `limit`. Empty if it is not installed, cannot be started or does
// not end in time: every answer is optional for `lockstep doctor`.
std::optional<os::CommandResult> run_with_timeout(const std::vector<std::string>& arguments,
                                                  const os::Environment& environment,
                                                  std::chrono::milliseconds limit);

}  // namespace lockstep::doctor
