#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One node: process 1 of separate namespaces (net, pid, mount, uts, ipc), created by rack.sh. Its
# root is an overlay over that of the machine, so that changes never reach the machine.
#
#   node.sh LAB NAME NUMBER
set -euo pipefail
parts=$(dirname "${BASH_SOURCE[0]}")
lab=$1 name=$2 number=$3
# shellcheck source=tests/launcher/slurm/lab/settings.sh
. "$parts/settings.sh"
load_settings "$lab"
# shellcheck source=tests/launcher/slurm/lab/extras.sh
. "$parts/extras.sh"

# Mounts a directory of the machine under the same path. Its parents may be accessible only to root
# (such as /root); the overlay opens them without a change outside.
share() { # ROOT DIRECTORY [OPTIONS]
  local at
  mkdir -p "$1$2"
  at=$(dirname "$2")
  while [[ $at != / ]]; do
    chmod o+x "$1$at" 2>/dev/null || :
    at=$(dirname "$at")
  done
  mount -n --bind "$2" "$1$2"
  if [[ -n ${3:-} ]]; then
    mount -n -o "remount,bind,$3" "$1$2"
  fi
}

# Makes a separate /dev. The GPUs are copies of /dev/null: Slurm requires character devices, and the
# major number of the real driver would open a real device.
make_devices() { # DEV
  local entry file major minor g
  mount -n -t tmpfs tmpfs "$1" -o mode=755,dev
  for entry in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 fuse:10:229; do
    IFS=: read -r file major minor <<<"$entry"
    mknod -m 666 "$1/$file" c "$major" "$minor"
  done
  ln -s /proc/self/fd "$1/fd"
  ln -s fd/0 "$1/stdin"
  ln -s fd/1 "$1/stdout"
  ln -s fd/2 "$1/stderr"
  ln -s pts/ptmx "$1/ptmx"
  mkdir "$1/shm" "$1/pts"
  mount -n -t tmpfs tmpfs "$1/shm" -o mode=1777
  mount -n -t devpts devpts "$1/pts" -o newinstance,ptmxmode=0666,mode=620,gid=5
  [[ $name != ctl ]] || return 0
  for ((g = 0; g < gpus; g++)); do
    mknod -m 666 "$1/nvidia$g" c 1 3
  done
}

# Builds the new root and switches to it. /tmp is private to the node, because PMIx of Slurm uses
# the same file names on every node.
change_root() {
  local disk=$lab/nodes/$name new directory
  mkdir -p "$disk"
  mount -n -t tmpfs tmpfs "$disk" -o mode=755
  new=$disk/root
  mkdir "$disk"/{upper,work,root}
  mount -n -t overlay overlay -o "lowerdir=/,upperdir=$disk/upper,workdir=$disk/work" "$new"
  mkdir -p "$new"/{proc,sys,dev,run,tmp,.old}
  mount -n -t proc proc "$new/proc"
  mount -n -t sysfs sysfs "$new/sys" # with /sys/class/net of this node
  mount -n -t tmpfs tmpfs "$new/run" -o mode=755
  mount -n -t tmpfs tmpfs "$new/tmp" -o mode=1777
  make_devices "$new/dev"
  lay_apptainer "$new"
  share "$new" "$root" ro
  for directory in "$lab" "${shares[@]}"; do
    share "$new" "$directory"
  done
  cd "$new"
  pivot_root . .old
  cd /
  umount -n -l /.old
  rmdir /.old
}

copy_configuration() {
  mkdir -p /run/munge /run/lock /run/sshd /etc/slurm /var/spool/slurmctld /var/spool/slurmd
  rm -f /etc/resolv.conf /etc/hosts /etc/nsswitch.conf
  cp "$lab"/etc/{hosts,resolv.conf,nsswitch.conf,passwd,group,shadow} /etc/
  cp "$lab"/etc/slurm/* /etc/slurm/
  echo "$name" >/etc/hostname
  give_subordinate_ids
  add_modules
}

# Drops or rejects packets from other nodes on mgmt0. ctl is always allowed, and so is Slurm if it
# uses this network.
block_management() {
  local verdict=drop allowed=
  [[ $block == drop ]] || verdict="reject with tcp reset"
  [[ $slurm_net == fab ]] || allowed="tcp dport { 6818, 60001-60999 } accept"
  nft -f - <<RULES
table inet lab {
  chain in {
    type filter hook input priority 0; policy accept;
    iifname != "mgmt0" accept
    ct state established,related accept
    ip saddr $mgmt.254 accept
    ip6 saddr $mgmt6:254 accept
    $allowed
    meta l4proto tcp $verdict
    meta l4proto { icmp, udp } drop
    icmpv6 type echo-request drop
  }
}
RULES
}

start_network() {
  local has_ipv6=no
  ip link set lo up
  if [[ -e /proc/sys/net/ipv6/conf/default/accept_dad ]]; then
    has_ipv6=yes
    echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad # skip duplicate address detection
  fi
  # Keep ephemeral ports out of the range of srun, which the firewall allows.
  echo "32768 60000" >/proc/sys/net/ipv4/ip_local_port_range
  wait_for_file "$lab/ready/net-$name"
  ip addr add "$mgmt.$number/24" dev mgmt0
  ip addr add "$fab.$number/24" dev fab0
  if [[ $has_ipv6 == yes ]]; then
    ip addr add "$mgmt6:$number/64" dev mgmt0 nodad
    ip addr add "$fab6:$number/64" dev fab0 nodad
  fi
  ip link set mgmt0 up
  ip link set fab0 up
  if [[ $name != ctl && ($block == drop || $block == reject) ]]; then
    block_management
  fi
}

# One munged per node, all with the same key; independent of the key and user of the package.
start_daemons() {
  munged --key-file="$lab/etc/munge.key" --socket=/run/munge/munge.socket.2 \
    --pid-file=/run/munged.pid --log-file="$lab/log/munged-$name.log" \
    --seed-file=/run/munge.seed --num-threads=2
  if [[ $with_ssh == yes ]]; then
    install -m 600 "$lab/etc/ssh_host_key" /run/ssh_host_key
    "$(command -v sshd)" -f /dev/null -h /run/ssh_host_key -o PidFile=/run/sshd.pid -o UsePAM=no \
      -o UseDNS=no -o PasswordAuthentication=no -o MaxStartups=100 -E "$lab/log/sshd-$name.log"
  fi
  if [[ $name == ctl ]]; then
    start_accounting
    slurmctld
    wait_for_port 6817
  else
    # Start slurmd after the controller: after a failed registration it waits a full second.
    wait_for_file "$lab/ready/ctl" 60 # starting a database takes long
    slurmd
  fi
}

main() {
  local rack_pid host_pid
  trap ': >"$lab/failed/$name"' EXIT
  read -r rack_pid _ </proc/self/stat
  read -r host_pid _ <"$lab/hostproc/self/stat"
  hostname "$name"
  change_root
  copy_configuration
  echo "$host_pid" >"$lab/pids/$name"
  echo "$rack_pid" >"$lab/pids/.$name"
  mv "$lab/pids/.$name" "$lab/pids/$name.rack"
  start_network
  start_daemons
  : >"$lab/ready/$name"
  # Idle and reap orphans: `wait` does this, `read` would not.
  while :; do
    sleep 3600 &
    wait $! || :
  done
}

main
