#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A machine without Debian's package manager: tools/setup.sh names the missing programs, CMake names all
# missing libraries in one message, and both name the page that helps.
#
#   unknown_distribution.sh SOURCE SCRATCH
set -euo pipefail
source=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch/bin"

fail() {
  echo "unknown_distribution: $*" >&2
  exit 1
}

expect() { # TEXT FILE
  grep -qF -- "$1" "$2" || fail "'$1' is not in:" "$(cat "$2")"
}

link() {
  local name
  for name in "$@"; do
    ln -sf "$(command -v "$name")" "$scratch/bin/$name"
  done
}

# PATH holds what every system has, and neither dpkg-query nor a compiler.
link bash dirname sort grep sed
status=0
env -u CXX PATH="$scratch/bin" "$source/tools/setup.sh" launcher >"$scratch/setup.txt" 2>&1 || status=$?
[[ $status -eq 69 ]] || fail "setup.sh exited with $status instead of 69"
expect 'this machine lacks: cmake, ninja, make, git, a C++20 compiler' "$scratch/setup.txt"
expect 'docs/install.md' "$scratch/setup.txt"

# With all programs there is nothing to report.
link cmake ninja make git c++
PATH="$scratch/bin" "$source/tools/setup.sh" launcher >"$scratch/setup.txt" 2>&1 ||
  fail "setup.sh failed although no program is missing:" "$(cat "$scratch/setup.txt")"
[[ ! -s $scratch/setup.txt ]] || fail "setup.sh printed:" "$(cat "$scratch/setup.txt")"

# Libraries: three packages and every header below /usr/include are hidden.
status=0
cmake -S "$source" -B "$scratch/build" -G Ninja -DLOCKSTEP_TRAINING=OFF -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF \
  -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON -DCMAKE_IGNORE_PATH=/usr/include \
  >"$scratch/cmake.txt" 2>&1 || status=$?
[[ $status -ne 0 ]] || fail "CMake did not fail:" "$(cat "$scratch/cmake.txt")"
[[ $(grep -c 'CMake Error' "$scratch/cmake.txt") -eq 1 ]] ||
  fail "there is more than one error:" "$(cat "$scratch/cmake.txt")"
for text in 'lockstep needs libraries that CMake did not find:' 'fmt 9 or newer' spdlog CLI11 cppzmq \
  libsodium yaml-cpp zlib libjpeg-turbo PCRE2 'docs/install.md'; do
  expect "$text" "$scratch/cmake.txt"
done
