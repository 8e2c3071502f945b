#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Simulates several nodes on one machine, without Slurm. Each node has its own network, process,
# mount, host name and IPC namespaces. Two networks connect the nodes. Requires root. Everything is
# removed when the command has ended.
#
#   node_lab.sh run [-n NODES] [-m drop|reject|open] COMMAND [ARGS...]
#   node_lab.sh on NODE COMMAND [ARGS...]        inside COMMAND: run on node n0, n1 ...
#
# mgmt0 is the first interface, and host names resolve to it: nI is 10.11.0.(I+1). Between nodes it
# drops traffic (the default), rejects it, or is open. fab0 always works: nI-fab is 10.12.0.(I+1).
# Each node has its own /tmp, /dev/shm and /sys. Everything else is shared, like the file system of
# a cluster.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")

fail() {
  echo "node_lab: $1" >&2
  exit "$2"
}

namespaces=(--net --pid --mount --uts --ipc)

# Outside the lab: creates the directory for host names and process ids, and the outer namespaces
# that contain all nodes.
run() {
  local nodes=4 mode=drop option
  while getopts "n:m:" option; do
    case $option in
      n) nodes=$OPTARG ;;
      m) mode=$OPTARG ;;
      *) exit 64 ;;
    esac
  done
  shift $((OPTIND - 1))
  [[ $# -gt 0 ]] || fail "no command given" 64
  [[ $nodes =~ ^[1-9][0-9]?$ ]] || fail "-n must be between 1 and 99, not '$nodes'" 64
  [[ $mode =~ ^(drop|reject|open)$ ]] || fail "-m must be drop, reject or open, not '$mode'" 64
  [[ $EUID -eq 0 ]] || fail "requires root to create namespaces" 69
  local tool
  for tool in unshare nsenter ip nft; do
    command -v "$tool" >/dev/null || fail "requires $tool (Debian: util-linux iproute2 nftables)" 69
  done

  LAB_DIR=$(mktemp -d -p /var/tmp lockstep-lab.XXXXXX)
  # shellcheck disable=SC2064  # expand now: LAB_DIR is the directory of this run
  trap "rm -rf '$LAB_DIR'" EXIT
  export LAB_DIR LAB_NODES=$nodes LAB_MODE=$mode
  unshare "${namespaces[@]}" --fork --kill-child "$self" rack "$@"
}

# Process 1 of the outer namespaces. When it ends, the kernel kills all other processes in them.
rack() {
  mount --make-rprivate /
  mount -t proc proc /proc
  hostname rack
  ip link set lo up
  ip link add brm type bridge
  ip link add brf type bridge
  ip link set brm up
  ip link set brf up
  {
    echo "127.0.0.1 localhost"
    for ((i = 0; i < LAB_NODES; i++)); do
      echo "10.11.0.$((i + 1)) n$i"
      echo "10.12.0.$((i + 1)) n$i-fab"
    done
  } >"$LAB_DIR/hosts"
  : >"$LAB_DIR/resolv.conf"
  local i
  for ((i = 0; i < LAB_NODES; i++)); do
    unshare "${namespaces[@]}" --fork --kill-child "$self" node "$i" </dev/null &
  done
  for ((i = 0; i < LAB_NODES; i++)); do
    wire "$i"
  done
  for ((i = 0; i < LAB_NODES; i++)); do
    await "$LAB_DIR/n$i.ready"
  done
  "$@"
}

await() {
  local i
  for ((i = 0; i < 1000; i++)); do
    [[ ! -s $1 ]] || return 0
    sleep 0.01
  done
  fail "timed out after 10 s waiting for $(basename "$1")" 69
}

# Creates the two network interfaces of a node. mgmt0 is created first, so that every tool lists it
# first.
wire() {
  await "$LAB_DIR/n$1.pid"
  local pid
  pid=$(<"$LAB_DIR/n$1.pid")
  ip link add "m$1" type veth peer name mgmt0 netns "$pid"
  ip link add "f$1" type veth peer name fab0 netns "$pid"
  ip link set "m$1" master brm up
  ip link set "f$1" master brf up
  echo yes >"$LAB_DIR/n$1.wired"
}

# Process 1 of a node: sets up mounts and addresses, then reaps orphans.
node() {
  local pid
  read -r pid _ </proc/self/stat # /proc still belongs to the outer namespaces
  hostname "n$1"
  mount --make-rprivate /
  mount --bind "$LAB_DIR/hosts" /etc/hosts
  mount --bind "$LAB_DIR/resolv.conf" /etc/resolv.conf
  mount -t proc proc /proc
  if [[ -d /sys/fs/cgroup ]]; then
    mkdir "$LAB_DIR/n$1.cgroup"
    mount --rbind /sys/fs/cgroup "$LAB_DIR/n$1.cgroup"
  fi
  mount -t sysfs sysfs /sys # shows the network interfaces of this node
  if [[ -d /sys/fs/cgroup && -d $LAB_DIR/n$1.cgroup ]]; then
    mount --move "$LAB_DIR/n$1.cgroup" /sys/fs/cgroup
  fi
  mount -t tmpfs tmpfs /dev/shm -o mode=1777
  mount -t tmpfs tmpfs /tmp -o mode=1777
  echo "$pid" >"$LAB_DIR/n$1.pid.part"
  mv "$LAB_DIR/n$1.pid.part" "$LAB_DIR/n$1.pid"

  await "$LAB_DIR/n$1.wired"
  ip link set lo up
  ip address add "10.11.0.$(($1 + 1))/24" dev mgmt0
  ip address add "10.12.0.$(($1 + 1))/24" dev fab0
  ip link set mgmt0 up
  ip link set fab0 up
  block
  echo yes >"$LAB_DIR/n$1.ready"
  while :; do
    sleep 3600 &
    wait $! || true # bash also reaps orphans while it waits
  done
}

block() {
  local verdict
  case $LAB_MODE in
    open) return ;;
    drop) verdict=drop ;;
    reject) verdict="reject with tcp reset" ;;
  esac
  nft -f - <<END
table inet lab {
  chain in {
    type filter hook input priority 0; policy accept;
    iifname != "mgmt0" accept
    ct state established,related accept
    meta l4proto tcp $verdict
    meta l4proto { icmp, udp } drop
  }
}
END
}

on() {
  [[ -n ${LAB_DIR:-} && -s $LAB_DIR/$1.pid ]] || fail "there is no node '$1'" 64
  local pid
  pid=$(<"$LAB_DIR/$1.pid")
  shift
  # nsenter changes to / when it enters a mount namespace, so return to the current directory.
  # shellcheck disable=SC2016  # expanded by the inner shell
  exec nsenter -t "$pid" "${namespaces[@]}" -- \
    /bin/bash -c 'cd "$1" && shift && exec "$@"' node "$PWD" "$@"
}

verb=${1:-}
case $verb in
  run | on | rack | node)
    shift
    "$verb" "$@"
    ;;
  *) fail "the first argument must be run or on, not '$verb'" 64 ;;
esac
