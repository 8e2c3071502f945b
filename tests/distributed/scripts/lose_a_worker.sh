#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# lose_a_worker.sh LOST PORT WORKER ARGUMENTS...: starts two workers without a launcher; rank LOST kills itself.
# Prints the output of the other one, and exits with its exit code.
set -u
lost=$1
shift
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$1 WORLD_SIZE=2
shift

RANK=$lost "$@" --do die --rank "$lost" >/dev/null 2>&1 &
RANK=$((1 - lost)) "$@" --do die --rank "$lost"
code=$?
wait
exit "$code"
