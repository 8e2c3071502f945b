#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Several nodes on one machine, without Slurm: network, process, mount, host name and IPC namespaces
# each, and two networks. As root; nothing of it is left when the command has ended.
#
#   node_lab.sh run [-n NODES] [-m drop|reject|open] COMMAND [ARGS...]
#   node_lab.sh on NODE COMMAND [ARGS...]        within COMMAND: on the node n0, n1 ...
#
# mgmt0 comes first and is what host names resolve to: nI is 10.11.0.(I+1). Between nodes it drops
# traffic (the default), rejects it, or is open. fab0 works: nI-fab is 10.12.0.(I+1). Each node has
# its own /tmp, /dev/shm and /sys; everything else is shared, like a cluster's file system.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")

fail() {
  echo "node_lab: $1" >&2
  exit "$2"
}

namespaces=(--net --pid --mount --uts --ipc)

# Outside: makes the folder of names and enters the room that all nodes stand in.
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
  [[ $# -gt 0 ]] || fail "which command shall run?" 64
  [[ $nodes =~ ^[1-9][0-9]?$ ]] || fail "-n takes 1 to 99 nodes, not '$nodes'" 64
  [[ $mode =~ ^(drop|reject|open)$ ]] || fail "-m takes drop, reject or open, not '$mode'" 64
  [[ $EUID -eq 0 ]] || fail "needs root, for namespaces" 69
  local tool
  for tool in unshare nsenter ip nft; do
    command -v "$tool" >/dev/null || fail "needs $tool (Debian: util-linux iproute2 nftables)" 69
  done

  LAB_DIR=$(mktemp -d -p /var/tmp lockstep-lab.XXXXXX)
  # shellcheck disable=SC2064  # the folder's name of now
  trap "rm -rf '$LAB_DIR'" EXIT
  export LAB_DIR LAB_NODES=$nodes LAB_MODE=$mode
  unshare "${namespaces[@]}" --fork --kill-child "$self" rack "$@"
}

# Process 1 of the room: when it ends, the kernel ends all else in it.
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
  fail "$(basename "$1") did not come within 10 s" 69
}

# The node's two cables; mgmt0 is made first, so that it is the first everywhere.
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

# Process 1 of a node.
node() {
  local pid
  read -r pid _ </proc/self/stat # /proc is still the room's
  hostname "n$1"
  mount --make-rprivate /
  mount --bind "$LAB_DIR/hosts" /etc/hosts
  mount --bind "$LAB_DIR/resolv.conf" /etc/resolv.conf
  mount -t proc proc /proc
  if [[ -d /sys/fs/cgroup ]]; then
    mkdir "$LAB_DIR/n$1.cgroup"
    mount --rbind /sys/fs/cgroup "$LAB_DIR/n$1.cgroup"
  fi
  mount -t sysfs sysfs /sys # with this node's class/net
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
    wait $! || true # reaps whoever has lost its parent
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
  [[ -n ${LAB_DIR:-} && -s $LAB_DIR/$1.pid ]] || fail "no node is called '$1' here" 64
  local pid
  pid=$(<"$LAB_DIR/$1.pid")
  shift
  # Entering a mount namespace leads to /.
  # shellcheck disable=SC2016  # for the shell within
  exec nsenter -t "$pid" "${namespaces[@]}" -- \
    /bin/bash -c 'cd "$1" && shift && exec "$@"' node "$PWD" "$@"
}

verb=${1:-}
case $verb in
  run | on | rack | node)
    shift
    "$verb" "$@"
    ;;
  *) fail "the first word is run or on, not '$verb'" 64 ;;
esac
