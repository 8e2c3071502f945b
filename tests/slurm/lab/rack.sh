#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The machine room: pid 1 of the lab's outer namespaces (net, pid, mount, uts, ipc). It has the two
# switches, one bridge for each network; every node is a child with namespaces of its own. When this
# process ends, the kernel ends every other one in the lab and takes all interfaces and mounts away.
#
#   rack.sh LAB
set -euo pipefail
parts=$(dirname "${BASH_SOURCE[0]}")
lab=$1
# shellcheck source=tests/slurm/lab/settings.sh
. "$parts/settings.sh"
load_settings "$lab"

# Starts a node and plugs its two cables in. mgmt0 comes first, as `hostname -I` tells them in order.
start_node() { # NAME NUMBER
  local name=$1 number=$2 pid
  rm -f "$lab/pids/$name" "$lab/pids/$name.rack" "$lab"/ready/{net-,}"$name" "$lab/failed/$name"
  # The cables of a node that has crashed go away in the kernel's own time.
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

# Ends everybody but this process, then removes what `down` would remove.
leave_without_trace() {
  kill -KILL -1 || :
  wait || :
  umount "$lab/hostproc"
  rm -rf "${lab:?}"
  exit 0
}

main() {
  local pid verb name number
  # /proc is still the host's, and so are the numbers in it.
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
  # Takes orders; looks for dies_with four times a second.
  while :; do
    if read -r -t 0.25 -u 3 verb name number && [[ $verb == boot ]]; then
      start_node "$name" "$number" || echo "could not boot $name" >&2
    fi
    ! is_orphaned || leave_without_trace
  done
}

main
