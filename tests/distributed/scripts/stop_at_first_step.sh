#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sends SIGTERM to a training after its first recorded step, and exits with its exit status.
#
#   stop_at_first_step.sh RUN_DIRECTORY COMMAND...
set -u

events=$1/events/rank-0.jsonl
shift
"$@" &
pid=$!
for ((turn = 0; turn < 600; turn++)); do
  grep -q '"event":"step"' "$events" 2>/dev/null && break
  sleep 0.1
done
kill -TERM "$pid"
wait "$pid"
