#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of a build folder, then prints skipped tests with their reasons, then the counts. If
# the output is not a terminal, only one in a hundred passed tests is printed, and the output of
# failed tests is printed at the end.
#
#   tools/run_tests.sh BUILD [JOBS] [CTEST OPTIONS...]
set -euo pipefail

build=$1
jobs=${2:-2}
shift $(($# < 2 ? $# : 2))
rm -rf "$build/test-results"
mkdir -p "$build/test-results"

run() {
  ctest --test-dir "$build" --no-tests=error -j "$jobs" \
    --output-junit test-results/ctest.xml "$@"
}
status=0
if [[ -t 1 ]]; then
  run --output-on-failure "$@" || status=$?
else
  run "$@" | awk '/^ +Start +[0-9]+: / { next }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .* Passed / && ++passed % 100 { next }
    { print; fflush() }' || status=$?
fi
python3 "$(dirname "$0")/summarize_tests.py" "$build/test-results" || status=1
exit "$status"
