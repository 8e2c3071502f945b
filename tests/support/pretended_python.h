// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::testing {

// Makes an environment as `-m venv DIR` does, in no time; installs what it is told to, but for
// "broken" and "slow".
inline constexpr const char* kPretendedPython = R"(#!/bin/bash
if [[ $2 == venv ]]; then
  mkdir -p "${@: -1}/bin"
  touch "${@: -1}/pyvenv.cfg"
  echo "export VIRTUAL_ENV='${@: -1}'" >"${@: -1}/bin/activate"
  cp "$0" "${@: -1}/bin/python"
  exit
fi
echo "python $* ${LOCKSTEP_LAB_MODULE:+with module $LOCKSTEP_LAB_MODULE}"
[[ $* != *broken* ]] || exit 7
[[ $* != *slow* ]] || { touch begun; sleep 60; }
)";

}  // namespace lockstep::testing
