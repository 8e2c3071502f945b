// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

// The page that --help shows: one sentence, usage, options by group, examples, exit codes, files.
// The first line of an app's description is the sentence, its footer follows the options.
std::string help_page(const CLI::App& app);

// Gives the command and all below it the house's --help.
void polish(CLI::App& app);

}  // namespace lockstep::cli
