#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs all checks that need no build of the training library. Reports all failures, not only the
# first.
#
#   tools/lint.sh [JOBS]
set -uo pipefail
cd "$(dirname "$0")/.." || exit

jobs=${1:-$(nproc)}
failed=()

check() {
  local name=$1
  shift
  "$@" || failed+=("$name")
}

shell_scripts() {
  # Scripts that lockstep generates are checked with bash in a separate test.
  mapfile -t scripts < <(find tools tests benchmarks examples .ci -name golden -prune -o -type f -print0 |
    xargs -0 grep -lE '^#!/bin/(ba)?sh' | sort)
  if command -v shellcheck >/dev/null; then
    shellcheck -x "${scripts[@]}" && echo "shellcheck: ${#scripts[@]} scripts"
  else
    echo "shellcheck: not installed, skipped"
  fi
}

python_files() {
  find tools tests benchmarks examples -name '*.py' -print0 |
    PYTHONDONTWRITEBYTECODE=1 xargs -0 python3 -c '
import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name).read(), name)
print(f"python: {len(sys.argv) - 1} files")'
}

tidy() {
  cmake --preset tidy --log-level=WARNING >/dev/null &&
    python3 tools/tidy.py --build build-tidy --jobs "$jobs"
}

check format tools/format.sh --check
check layering python3 tools/check_layers.py
check language python3 tools/check_language.py
check strategy-names python3 tools/check_strategy_names.py
check shellcheck shell_scripts
check python python_files
check web tools/check_web.sh
check clang-tidy tidy

if [[ ${#failed[@]} -gt 0 ]]; then
  echo "lint: failed: ${failed[*]}" >&2
  exit 1
fi
echo "lint: passed"
