#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by tools/slurm-lab: checks whether a lab is possible on this machine.
# shellcheck disable=SC2154  # settings.sh sets them

# Prints the first missing program.
find_missing_program() {
  local program
  local needed=(slurmctld slurmd srun sinfo munged ip bridge unshare nsenter setpriv pivot_root
    mknod mkfifo flock)
  [[ $block != drop && $block != reject ]] || needed+=(nft)
  [[ $with_ssh == no ]] || needed+=(sshd ssh ssh-keygen)
  [[ $with_apptainer == no ]] || needed+=(patchelf mksquashfs newuidmap squashfuse)
  [[ $with_accounts == no ]] || needed+=(mariadbd mariadb-install-db slurmdbd sacctmgr)
  for program in "${needed[@]}"; do
    if ! command -v "$program" >/dev/null; then
      echo "$program"
      return
    fi
  done
}

# Prints the group of tools/setup.sh that installs a program.
group_of() { # PROGRAM
  case $1 in
    mariadbd | mariadb-install-db | slurmdbd) echo slurm-accounts ;;
    *) echo slurm ;;
  esac
}

# Tries all kernel features of a lab in temporary namespaces.
try_namespaces() {
  unshare --net --pid --fork --kill-child --mount --uts --ipc /bin/bash -e <<'TRIAL'
hostname rack
ip link add bridge0 type bridge
ip link add here type veth peer name there
mount -n -t tmpfs tmpfs /tmp
mkdir /tmp/upper /tmp/work /tmp/root
mount -n -t overlay overlay -o lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work /tmp/root
mount -n -t proc proc /tmp/root/proc
mknod /tmp/null c 1 3
TRIAL
}

# Prints in one line why a lab is impossible; nothing if it is possible.
reason_against_lab() {
  if [[ $(uname -s) != Linux ]]; then
    echo "Linux is required"
    return
  fi
  if [[ $EUID -ne 0 ]]; then
    echo "root is required for namespaces and overlay mounts"
    return
  fi
  local missing
  missing=$(find_missing_program)
  if [[ -n $missing ]]; then
    echo "$missing is not installed; run: tools/setup.sh $(group_of "$missing")"
    return
  fi
  if [[ $with_modules == yes && ! -d /etc/environment-modules && ! -d /etc/lmod ]]; then
    echo "no module system is installed; run: tools/setup.sh slurm"
    return
  fi
  local trial
  if ! trial=$(try_namespaces 2>&1); then
    echo "namespaces, bridges or overlay mounts are unavailable: $(tail -n 1 <<<"$trial")"
  fi
}
