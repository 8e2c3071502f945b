// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::slurm {

// Properties of shell code that matter if a launcher is put in front of it.
struct ShellCommand {
  std::string first_word;  // without its quotes
  std::string separator;   // the first one that starts another command: ";", "&&"; empty: none
  bool has_pipe = false;
  bool has_open_quote = false;
};

ShellCommand look_at_command(std::string_view text);

}  // namespace lockstep::slurm
