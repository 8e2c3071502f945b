#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A worker that prints where it finds MPS, and the process id of the agent to parent-RANK.
#
#   mps_worker.sh CODE   exits with CODE
#   mps_worker.sh stay   runs until it is killed
printf '%s %s %s %s\n' "$CUDA_MPS_PIPE_DIRECTORY" "$(stat -c %a "$CUDA_MPS_PIPE_DIRECTORY")" \
  "$CUDA_MPS_LOG_DIRECTORY" "${CUDA_MPS_ACTIVE_THREAD_PERCENTAGE-unset}"
echo "$PPID" >"writing-$RANK"
mv "writing-$RANK" "parent-$RANK"
[ "$1" = stay ] || exit "$1"
exec sleep 600
