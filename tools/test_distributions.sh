#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs `make demo` and `make test` on several Debian releases, one after the other, and prints a table.
#
#   tools/test_distributions.sh RELEASE...
#
# Each release is a tree under build-debian/ (tools/in-debian.sh). The output of each command is in
# build-debian/RELEASE-demo.log and RELEASE-test.log. All releases run, even if one of them fails.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
if [[ $# -eq 0 ]]; then
  echo "test_distributions: name at least one release, such as bookworm, trixie or sid" >&2
  exit 64
fi

# Prints the package versions of a release.
versions() { # RELEASE
  # shellcheck disable=SC2016  # expanded by dpkg-query
  tools/in-debian.sh "$1" dpkg-query -W -f '${Package} ${Version}\n' \
    g++ cmake libtorch-dev libfmt-dev libyaml-cpp-dev libcpp-httplib-dev slurmctld python3-torch \
    2>/dev/null | sed 's/^/  /'
}

failed=0
rows=()
mkdir -p build-debian
for release in "$@"; do
  for target in demo test; do
    log=build-debian/$release-$target.log
    echo "test-distributions: $release: make $target (output: $log)"
    started=$SECONDS
    outcome=passed
    if ! tools/in-debian.sh "$release" make "$target" >"$log" 2>&1 </dev/null; then
      outcome=failed
      failed=1
      tail -n 15 "$log"
    fi
    count=$(grep -E '^[a-z]*:? *[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    rows+=("$(printf '%-10s make %-5s %-7s %5d s  %s' "$release" "$target" "$outcome" \
      $((SECONDS - started)) "$count")")
  done
  versions "$release"
done
printf '%s\n' "${rows[@]}"
exit "$failed"
