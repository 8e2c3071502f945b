#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Rank 0 is family.sh. Rank 1 starts one child, writes its process ids like family.sh, and exits with
# 3 when the file `go` exists.
[ "$RANK" != 0 ] || exec "$(dirname "$0")/family.sh" stay
sleep 600 &
echo $$ $! $! "$PPID" >writing-1
mv writing-1 family-1
while [ ! -e go ]; do sleep 0.02; done
exit 3
