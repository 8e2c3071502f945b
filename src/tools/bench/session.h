// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/session.h"

namespace lockstep::bench {

// Runs `body` in lockstep::run(), like a training program with these flags, and returns its exit
// code. Outside of `lockstep run` the run directory is temporary.
int in_session(std::vector<std::string> flags, const std::function<void(Session&)>& body);

}  // namespace lockstep::bench
