// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep::slurm {

// A value as one word of bash, in double quotes: $NAME and ${NAME} are left for the shell, and a ~/
// in front is the home; nothing else means anything.
std::string in_quotes(std::string_view value);

// `module` is a function of login shells; this finds it in others.
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

// A command over several lines, each after the first indented and the one before ended with a
// backslash.
std::string continued(std::span<const std::string> lines);

}  // namespace lockstep::slurm
