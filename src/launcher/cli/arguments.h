// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

// A command line, split into words for CLI11 and the program with its arguments.
struct Arguments {
  std::vector<std::string> words;    // for CLI11: --option=VALUE, main names only
  std::vector<std::string> program;  // the program and its arguments, unchanged
  const CLI::App* chosen = nullptr;  // the selected (sub)command
  bool wants_help = false;
  bool is_incomplete = false;  // `chosen` requires a subcommand, and none was given
};

// Normalizes a command line before CLI11 parses it; values are not checked here. '_' in an option
// name is read as '-'. For a command that runs a program (marked with CLI11's prefix_command), the
// program begins at the first word that is not an option, or after `--`. The options of such a
// command also have unique abbreviations, as in argparse, and the names of other launchers. Throws
// an Error (64) with the closest match for an unknown option or subcommand.
Arguments read_arguments(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace lockstep::cli
