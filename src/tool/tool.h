// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::tool {

// The command line of a program that is no training: looks at it with `check` before anything else
// does, parses it, which does what subcommands do, and turns what is thrown into a message and an
// exit code.
int run(CLI::App& app, int argc, const char* const* argv, const std::function<void()>& check = {});

}  // namespace lockstep::tool
