#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Formats all C++ files; with --check, only reports files that are not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -d '' files < <(find include src apps examples tests benchmarks -type d -name missing_headers \
  -prune -o -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print0 | sort -z)
if [[ ${1:-} == --check ]]; then
  clang-format --dry-run -Werror "${files[@]}"
  echo "format: ${#files[@]} files are formatted"
else
  clang-format -i "${files[@]}"
fi
