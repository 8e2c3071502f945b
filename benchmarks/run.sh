#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the benchmarks of a build directory in sequence, because they need an idle machine.
#
#   benchmarks/run.sh BUILD
set -euo pipefail

build=$1
echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores," \
  "$(uname -m), load $(cut -d' ' -f1 /proc/loadavg)"

echo "== loader_bench"
"$build/bench/loader_bench" --benchmark_repetitions=3 --benchmark_report_aggregates_only=true

echo "== lockstep-bench allreduce"
kibibytes="4,16,64,256,1024,4096,10240,25600,102400"
allreduce=("$build/bin/lockstep-bench" allreduce --device cpu --seconds 0.5 --sizes "$kibibytes")
for workers in 2 4; do
  for transport in shared-memory gloo; do
    "${allreduce[@]}" --workers "$workers" --transport "$transport" \
      --json "$build/allreduce-$transport-$workers.json"
  done
  if command -v mpirun >/dev/null; then
    OMP_NUM_THREADS=1 mpirun --allow-run-as-root --oversubscribe -np "$workers" \
      "${allreduce[@]}" --json "$build/allreduce-mpi-$workers.json"
  fi
done

echo "== mnist_bench"
data=${LOCKSTEP_DATA_DIR:-data}
if "$build/bin/lockstep" data fetch mnist; then
  python3 "$(dirname "$0")/mnist_bench.py" --bin "$build/bin" --data-dir "$data" \
    --json "$build/mnist_bench.json"
else
  echo "mnist_bench: skipped, because it needs the MNIST data set" >&2
fi

echo "== fusion_bench"
for transport in shared-memory gloo; do
  for workers in 2 4; do
    "$build/bin/lockstep" run --nproc-per-node "$workers" -- \
      "$build/bench/fusion_bench" --transport "$transport"
  done
done
