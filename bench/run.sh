#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every benchmark of a build folder, one after the other: they want the machine for themselves.
#
#   bench/run.sh BUILD
set -euo pipefail

build=$1
echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores," \
  "$(uname -m), load $(cut -d' ' -f1 /proc/loadavg)"
for name in loader_bench; do
  echo "== $name"
  "$build/bench/$name" --benchmark_repetitions=3 --benchmark_report_aggregates_only=true
done
