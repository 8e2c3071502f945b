// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/session.h"

namespace lockstep {

// The main of a training program. Reads the options, sets good defaults, joins the gang, runs
// `body`, leaves the gang, and returns the exit code; reports every error, in one message.
//
// Call it first thing in main, before anything of libtorch: it may fork the node's workers from
// this process, which saves each of them the loading of libtorch.
int run(int argc, char** argv, const Program& program, const std::function<void(Session&)>& body);

}  // namespace lockstep
