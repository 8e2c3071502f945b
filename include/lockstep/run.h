// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/session.h"

namespace lockstep {

// The main function of a training program. Parses the command line, sets the defaults of this
// process, joins the process group, runs `body`, leaves the process group and returns the exit
// code (ExitCode). Reports every error in one message; exceptions never leave it.
//
//   int main(int argc, char** argv) {
//     const lockstep::Program program{.about = "Train a model"};
//     return lockstep::run(argc, argv, program, [](lockstep::Session& session) { ... });
//   }
//
// Call it first in main, before any function of libtorch and before the first thread: if the agent
// requests it, this process forks the workers of the node, so that libtorch is loaded only once.
// `body` then runs in each worker. With --replicas, it runs concurrently on several threads, each
// with its own Session.
int run(int argc, char** argv, const Program& program, const std::function<void(Session&)>& body);

}  // namespace lockstep
