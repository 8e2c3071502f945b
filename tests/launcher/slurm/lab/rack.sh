#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The rack: process 1 of the outer namespaces of a lab (net, pid, mount, uts, ipc). It has two
# switches, one bridge per network. Every node is a child process with separate namespaces. When
# this process ends, the kernel ends all other processes of the lab and removes interfaces and
# mounts.
#
#   rack.sh LAB
set -euo pipefail
parts=$(dirname "${BASH_SOURCE[0]}")
lab=$1
# shellcheck source=tests/launcher/slurm/lab/settings.sh
. "$parts/settings.sh"
load_settings "$lab"

# Starts a node and connects its cables, mgmt0 first: `hostname -I` prints interfaces in order.
start_node() { # NAME NUMBER
  local name=$1 number=$2 pid
  rm -f "$lab/pids/$name" "$lab/pids/$name.rack" "$lab"/ready/{net-,}"$name" "$lab/failed/$name"
  # The kernel removes the cables of a crashed node asynchronously.
  ip link del "m-$name" 2>/dev/null || :
  ip link del "f-$name" 2>/dev/null || :
  unshare --net --pid --fork --kill-child --mount --uts --ipc \
    /bin/bash "$parts/node.sh" "$lab" "$name" "$number" >>"$lab/log/node-$name.log" 2>&1 3>&- &
  wait_for_file "$lab/pids/$name.rack"
  pid=$(<"$lab/pids/$name.rack")
  ip link add "m-$name" type veth peer name mgmt0 netns "$pid"
  ip link add "f-$name" type veth peer name fab0 netns "$pid"
  ip link set "m-$name" master brm up
  ip link set "f-$name" master brf up
  if [[ $block == isolate && $name != ctl ]]; then
    bridge link set dev "m-$name" isolated on
  fi
  : >"$lab/ready/net-$name"
}

is_orphaned() {
  [[ -n $dies_with ]] &&
    [[ $(start_of_process "$dies_with" "$lab/hostproc") != "$dies_with_at" ]]
}

# Ends all processes but this one, then removes everything that `down` removes.
leave_without_trace() {
  kill -KILL -1 || :
  wait || :
  umount "$lab/hostproc"
  rm -rf "${lab:?}"
  exit 0
}

main() {
  local pid verb name number
  # /proc is still that of the host, with its process ids.
  read -r pid _ </proc/self/stat
  echo "$pid" >"$lab/rack.pid"
  hostname rack
  mkdir "$lab/hostproc"
  mount -n --bind /proc "$lab/hostproc"
  mount -n -t proc proc /proc
  ip link set lo up
  for name in brm brf; do
    ip link add "$name" type bridge mcast_snooping 0
    ip link set "$name" up
  done
  mkfifo "$lab/orders"
  exec 3<>"$lab/orders"
  start_node ctl 254
  for ((number = 1; number <= nodes; number++)); do
    start_node "n$number" "$number"
  done
  # Handles commands, and checks dies_with four times per second.
  while :; do
    if read -r -t 0.25 -u 3 verb name number && [[ $verb == boot ]]; then
      start_node "$name" "$number" || echo "could not boot $name" >&2
    fi
    ! is_orphaned || leave_without_trace
  done
}

main
