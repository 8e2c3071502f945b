#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the launcher runs without libtorch, MPI and CUDA.
#
#   launcher_links_no_torch.sh LAUNCHER
set -euo pipefail

libraries=$(ldd "$1")
echo "$libraries"
if grep -E '^\s*lib(torch|c10|mpi|gloo|cuda|cudnn|nccl|opencv)|not found' <<<"$libraries"; then
  echo "the launcher links the libraries above" >&2
  exit 1
fi
