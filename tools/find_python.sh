#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the Python interpreter that has all of the modules: python3 in PATH, or else
# /usr/bin/python3, for which tools/setup.sh installs the packages of the distribution. Tests
# and benchmarks must use this script to choose their interpreter.
#
#   tools/find_python.sh MODULE...
set -euo pipefail

has_modules='
import importlib.util, sys
sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1:]))'

for python in "$(command -v python3 || true)" /usr/bin/python3; do
  if [[ -x $python ]] && "$python" -c "$has_modules" "$@" 2>/dev/null; then
    echo "$python"
    exit 0
  fi
done
echo "find_python: neither python3 nor /usr/bin/python3 has: $*; run: tools/setup.sh bench" >&2
exit 69
