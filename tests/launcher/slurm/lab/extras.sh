#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by node.sh: optional features of a lab (Apptainer, modules, accounts).
# shellcheck disable=SC2154  # settings.sh and node.sh set them

# Mounts Apptainer into a new root before pivot_root: its files in their usual places, its C library
# where fetch-apptainer.sh has configured it.
lay_apptainer() { # NEW_ROOT
  [[ -n $apptainer ]] || return 0
  local own at=/opt/lockstep-lab/apptainer
  own=$(cd "$apptainer" && find usr/lib* -type d -name apptainer | head -n 1)
  mkdir -p "$1$at" "$1/$own" "$1/usr/bin" "$1/var/lib/apptainer/mnt/session"
  mount -n --bind -o ro "$apptainer" "$1$at"
  mount -n --bind -o ro "$apptainer/$own" "$1/$own"
  # Not a link: Apptainer finds its other files relative to its real path.
  : >"$1/usr/bin/apptainer"
  mount -n --bind -o ro "$apptainer/usr/bin/apptainer" "$1/usr/bin/apptainer"
  cp -a "$apptainer/etc/apptainer" "$1/etc/"
}

# User and group ids for containers of the user.
give_subordinate_ids() {
  [[ $with_apptainer == yes ]] || return 0
  echo "$user:100000:65536" | tee /etc/subuid >/etc/subgid
}

# Adds the modules of the lab to the path of either module system.
add_modules() {
  [[ $with_modules == yes ]] || return 0
  local list
  for list in /etc/environment-modules/modulespath /etc/lmod/modulespath; do
    [[ ! -d $(dirname "$list") ]] || echo "$lab/modulefiles" >>"$list"
  done
  # If this file exists, modulespath is not read.
  list=/etc/environment-modules/initrc
  [[ ! -e $list ]] || echo "module use --append {$lab/modulefiles}" >>"$list"
}

# Starts a database in memory and slurmdbd, and adds one account with the user.
start_accounting() {
  [[ $with_accounts == yes ]] || return 0
  local data=/run/database socket=/run/mysqld/mysqld.sock
  install -m 600 "$lab/etc/slurmdbd.conf" /etc/slurm/slurmdbd.conf
  mkdir -p /run/mysqld
  mariadb-install-db --no-defaults --user=root --datadir="$data" --skip-test-db \
    --auth-root-authentication-method=socket >"$lab/log/mariadb-install.log" 2>&1
  mariadbd --no-defaults --user=root --datadir="$data" --socket="$socket" --skip-networking \
    --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0 \
    >"$lab/log/mariadbd.log" 2>&1 &
  wait_for_file "$socket"
  MYSQL_UNIX_PORT=$socket slurmdbd # releases of libmariadb differ in the default
  wait_for_port 6819
  sacctmgr -i -Q add cluster lab
  sacctmgr -i -Q add account test Cluster=lab
  sacctmgr -i -Q add user "$user" Account=test
}
