#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs a build folder into a scratch prefix, builds the client project against it and runs it as
# a single process.
#
#   install_client.sh BUILD SCRATCH
set -euo pipefail

build=$1
scratch=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$scratch"
mkdir -p "$scratch"

cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log"
options=()
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
cmake -G Ninja -S "$here/client" -B "$scratch/client" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS=-O1 "-DCMAKE_PREFIX_PATH=$scratch/prefix${CMAKE_PREFIX_PATH:+;$CMAKE_PREFIX_PATH}" \
  "${options[@]}"
cmake --build "$scratch/client"

cd "$scratch"
said=$(env -u RANK -u WORLD_SIZE client/client -s single)
echo "$said"
grep -qx 'workers: 1, sum: 1' <<<"$said"
"$scratch/prefix/bin/lockstep" --version

# Absolute paths only: with the sources in /lockstep, include/lockstep is not one of them.
source=$(cd "$here/../.." && pwd)
if grep -rlP "(?<![\\w.}/])(\\Q$build\\E|\\Q$source\\E)(?![\\w-])" prefix/include prefix/lib*/cmake; then
  echo "the files above contain the path of the build or source folder" >&2
  exit 1
fi
