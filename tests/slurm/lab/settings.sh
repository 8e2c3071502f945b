#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by tools/slurm-lab, rack.sh and node.sh: what a lab can be asked for, and its addresses.
# shellcheck disable=SC2034  # those who source it use them

# What `up` was asked for; kept in LAB/settings so that every later command knows it too.
nodes=3         # n1 ... nN, beside ctl
cpus=4          # that each node claims to have, which may be more than there are
memory=4000     # MiB that each node claims to have
gpus=2          # fake ones, on each node
block=drop      # what becomes of traffic between nodes on mgmt0
slurm_net=fab   # the network that Slurm's own daemons talk on
with_ssh=no     # an sshd on every node
with_modules=no # modules to load
apptainer=      # where it lies, unless this machine has one of its own
# Apptainer on every node; accounting, and nobody submits without an account
with_apptainer=no with_accounts=no
dies_with=      # the process whose end is the lab's, or nobody
dies_with_at=   # and when that process began, as the kernel counts
root=           # the repository, to be seen on every node, read-only
shares=()       # further directories, to be seen and written on every node
user=hpc        # who works there
uid=2001
settings=(nodes cpus memory gpus block slurm_net with_ssh with_apptainer apptainer with_modules
  with_accounts dies_with dies_with_at root shares user uid)

# Node i is .i, ctl is .254.
mgmt=10.11.0 mgmt6=fd00:11:
fab=10.12.0 fab6=fd00:12:

# A PATH that owes nothing to the caller's: root's tools may be out of the user's reach.
system_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
user_path=/usr/local/bin:/usr/bin:/bin

save_settings() { # LAB
  declare -p "${settings[@]}" | sed 's/^declare /declare -g /' >"$1/settings"
}

load_settings() { # LAB
  # shellcheck source=/dev/null
  . "$1/settings"
}

# When a process began, in ticks since the start of the machine; fails when it has ended.
start_of_process() { # PID [PROC]
  local line
  { read -r line <"${2:-/proc}/$1/stat"; } 2>/dev/null || return 1
  # The second field is the program's name in brackets, with whatever blanks it has.
  local fields
  read -r -a fields <<<"${line##*) }"
  [[ ${fields[0]} != [ZX] ]] && echo "${fields[19]}"
}

# Waits until a file is there, or a limit, 15 s unless told, has passed.
wait_for_file() { # PATH [SECONDS]
  local turn
  for ((turn = 0; turn < ${2:-15} * 100; turn++)); do
    [[ ! -e $1 ]] || return 0
    sleep 0.01
  done
  echo "waited ${2:-15} s for $1" >&2
  return 1
}

# Waits until somebody listens on a port of this node, or a limit of 15 s has passed.
wait_for_port() { # PORT
  local turn
  for ((turn = 0; turn < 1500; turn++)); do
    ! (exec 9<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
    sleep 0.01
  done
  echo "waited 15 s for port $1" >&2
  return 1
}
