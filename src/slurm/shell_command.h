// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::slurm {

// What a shell will make of a text, as far as a launcher in front of it must know.
struct ShellCommand {
  std::string first_word;  // without its quotes
  std::string separator;   // the first that begins another command: ";", "&&"; empty: none does
  bool has_pipe = false;
  bool has_open_quote = false;
};

ShellCommand look_at_command(std::string_view text);

}  // namespace lockstep::slurm
