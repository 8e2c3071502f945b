// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep::slurm {

// Quotes a value as one word for bash, in double quotes. $NAME, ${NAME} and a leading ~/ are
// expanded by the shell; all other special characters are escaped.
std::string in_quotes(std::string_view value);

// `module` is a function that only login shells define; this defines it in other shells.
inline constexpr std::string_view kFindModuleSystem =
    R"sh(if ! type module >/dev/null 2>&1; then
  for init in /etc/profile.d/lmod.sh /usr/share/lmod/lmod/init/bash \
    /etc/profile.d/modules.sh /usr/share/modules/init/bash; do
    if [[ -r $init ]]; then
      source "$init"
      break
    fi
  done
fi
)sh";

// Joins the lines of one command with backslashes; all lines but the first are indented.
std::string continued(std::span<const std::string> lines);

}  // namespace lockstep::slurm
