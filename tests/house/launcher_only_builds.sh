#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the launcher without libtorch and checks every header that was read.
#
#   launcher_only_builds.sh SOURCE SCRATCH
set -euo pipefail

cd "$1"
scratch=$2
# Headers do not depend on the optimization level, so the fastest one is used.
cmake --preset launcher-only -B "$scratch" -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_BENCH=OFF \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0
cmake --build "$scratch" --target lockstep
"$scratch/bin/lockstep" --version

if ninja -C "$scratch" -t deps | grep -E '/(torch|ATen|c10|caffe2)/'; then
  echo "the launcher includes the headers of libtorch above" >&2
  exit 1
fi
