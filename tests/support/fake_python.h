// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::testing {

// A fake Python interpreter. `-m venv DIR` creates an environment immediately. Installations only
// print their arguments; packages named "broken" fail and packages named "slow" take a minute.
inline constexpr const char* kFakePython = R"(#!/bin/bash
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
