// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::tool {

// The main function of the tools: calls `check` first, then parses the command line, which runs the
// callbacks of the subcommands. Prints exceptions as error messages and returns the exit code.
int run(CLI::App& app, int argc, const char* const* argv, const std::function<void()>& check = {});

}  // namespace lockstep::tool
