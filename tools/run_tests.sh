#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of a build folder, then says by name what was skipped and why, then counts.
#
#   tools/run_tests.sh BUILD [JOBS] [CTEST OPTIONS...]
set -euo pipefail

build=$1
jobs=${2:-2}
shift $(($# < 2 ? $# : 2))
rm -rf "$build/test-results"
mkdir -p "$build/test-results"

status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$jobs" \
  --output-junit test-results/ctest.xml "$@" || status=$?
python3 "$(dirname "$0")/summarize_tests.py" "$build/test-results" || status=1
exit "$status"
