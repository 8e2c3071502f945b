// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

// A command line, cut into what is for CLI11 and what is not.
struct Arguments {
  std::vector<std::string> words;    // for CLI11: values joined to their options
  std::vector<std::string> program;  // the program and its arguments, untouched
  const CLI::App* chosen = nullptr;  // the (sub)command that the words lead to
  bool wants_help = false;
  bool is_incomplete = false;  // `chosen` needs a subcommand, and none came
};

// Reads the words as far as their form goes. For a command that takes a program (its name says so
// to CLI11 through prefix_command), the first word that is no option, or all that follows `--`, is
// the program; its options may also be cut short where that leaves no doubt, as argparse allows,
// and have the other launchers' names. Options may be spelt with '_' for '-'. Throws an Error (64)
// with the closest match for an option or a subcommand that does not exist.
Arguments read_arguments(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace lockstep::cli
