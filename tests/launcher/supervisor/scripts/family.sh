#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A worker with one child in its process group and one in a new session. Writes four process ids to
# family-RANK: its own, those of both children, and that of its parent, the agent.
#
#   family.sh stay    ignores SIGTERM and runs until it is killed
#   family.sh leave   exits with 0 at once
sleep 600 &
child=$!
setsid sleep 600 &
echo $$ $child $! "$PPID" >"writing-$RANK"
mv "writing-$RANK" "family-$RANK"
[ "$1" = stay ] || exit 0
trap '' TERM
while :; do sleep 0.05; done
