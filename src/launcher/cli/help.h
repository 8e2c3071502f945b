// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

// The page that --help prints: summary, usage, options by group, examples, exit codes, files. The
// first line of the description of `app` is the summary; its footer follows the options.
std::string help_page(const CLI::App& app);

// Adds -h and --help to the command and to all its subcommands.
void polish(CLI::App& app);

}  // namespace lockstep::cli
