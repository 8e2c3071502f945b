#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by tools/slurm-lab, rack.sh and node.sh: the settings of a lab, and its addresses.
# shellcheck disable=SC2034  # used by the sourcing scripts

# Options of `up`; stored in LAB/settings for later commands.
nodes=3         # n1 ... nN, in addition to ctl
cpus=4          # per node, as configured; can be more than the machine has
memory=4000     # MiB per node, as configured
gpus=2          # fake GPUs per node
block=drop      # handling of traffic between nodes on mgmt0
slurm_net=fab   # network of the Slurm daemons
with_ssh=no     # an sshd on every node
with_modules=no # modules to load
apptainer=      # directory of Apptainer; empty: that of this machine
# Apptainer on every node; accounting with required accounts
with_apptainer=no with_accounts=no
dies_with=      # process whose end also ends the lab; empty: none
dies_with_at=   # start time of that process in ticks
root=           # the repository, read-only on every node
shares=()       # additional writable directories on every node
user=hpc        # user of the lab
uid=2001
settings=(nodes cpus memory gpus block slurm_net with_ssh with_apptainer apptainer with_modules
  with_accounts dies_with dies_with_at root shares user uid)

# Node i is .i, ctl is .254.
mgmt=10.11.0 mgmt6=fd00:11:
fab=10.12.0 fab6=fd00:12:

# Fixed PATHs, independent of the caller, whose programs the user may be unable to access.
system_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
user_path=/usr/local/bin:/usr/bin:/bin

save_settings() { # LAB
  declare -p "${settings[@]}" | sed 's/^declare /declare -g /' >"$1/settings"
}

load_settings() { # LAB
  # shellcheck source=/dev/null
  . "$1/settings"
}

# Prints the start time of a process in ticks since boot; fails if it has ended.
start_of_process() { # PID [PROC]
  local line
  { read -r line <"${2:-/proc}/$1/stat"; } 2>/dev/null || return 1
  # The second field is the program name in parentheses; it can contain blanks.
  local fields
  read -r -a fields <<<"${line##*) }"
  [[ ${fields[0]} != [ZX] ]] && echo "${fields[19]}"
}

# Waits for a file, at most SECONDS (default 15).
wait_for_file() { # PATH [SECONDS]
  local turn
  for ((turn = 0; turn < ${2:-15} * 100; turn++)); do
    [[ ! -e $1 ]] || return 0
    sleep 0.01
  done
  echo "timed out after ${2:-15} s waiting for $1" >&2
  return 1
}

# Waits for a listener on a port of this node, at most 15 s.
wait_for_port() { # PORT
  local turn
  for ((turn = 0; turn < 1500; turn++)); do
    ! (exec 9<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
    sleep 0.01
  done
  echo "timed out after 15 s waiting for port $1" >&2
  return 1
}
