// SPDX-License-Identifier: Apache-2.0
#pragma once

// The launcher's command line.
namespace lockstep::cli {

// What main() does: reads the words, does what they ask, tells errors, returns the exit code.
int run(int argc, const char* const* argv);

}  // namespace lockstep::cli
