// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/session.h"

namespace lockstep::bench {

// Runs `body` as lockstep::run() runs a training program that was started with these flags; returns
// its exit code. Alone it leaves no run directory behind.
int in_session(std::vector<std::string> flags, const std::function<void(Session&)>& body);

}  // namespace lockstep::bench
