// SPDX-License-Identifier: Apache-2.0
#pragma once

// The command line of the launcher.
namespace lockstep::cli {

// The body of main(): parses the command line, runs the subcommand, prints errors to stderr and
// returns the exit code.
int run(int argc, const char* const* argv);

}  // namespace lockstep::cli
