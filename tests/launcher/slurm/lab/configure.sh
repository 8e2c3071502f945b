#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by tools/slurm-lab: writes the configuration of all nodes to LAB/etc.
# shellcheck disable=SC2154  # settings.sh sets them

# slurm.conf. Times are short for tests: cred_expire is also the delay of a requeued job (default
# 120 s), SlurmdTimeout the time until a dead node is detected (300 s), KillWait the time from
# SIGTERM to SIGKILL (30 s).
slurm_conf() { # LAB
  local network=$fab
  [[ $slurm_net == fab ]] || network=$mgmt
  cat <<CONF
ClusterName=lab
SlurmctldHost=ctl($network.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=cred_expire=10
SlurmctldPort=6817
SlurmdPort=6818
SrunPortRange=60001-60999
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$1/log/slurmctld.log
SlurmdLogFile=$1/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
$(accounting_conf)
JobCompType=jobcomp/filetxt
JobCompLoc=$1/log/jobcomp.txt
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000,bf_interval=1
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=10
InactiveLimit=0
KillWait=5
MinJobAge=300
MessageTimeout=10
TCPTimeout=2
Waittime=0
UnkillableStepTimeout=60
PropagateResourceLimitsExcept=MEMLOCK
CONF
  local i gres=
  ((gpus == 0)) || gres=" Gres=gpu:fake:$gpus"
  for ((i = 1; i <= nodes; i++)); do
    echo "NodeName=n$i NodeAddr=$network.$i NodeHostname=n$i CPUs=$cpus Boards=1" \
      "SocketsPerBoard=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=$memory$gres"
  done
  echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO"
  echo "PartitionName=short Nodes=ALL MaxTime=2 State=UP OverSubscribe=NO"
}

# With accounts: Slurm rejects a wrong account, and the submit script of the site a missing one.
accounting_conf() {
  if [[ $with_accounts == no ]]; then
    echo JobAcctGatherType=jobacct_gather/none
    echo AccountingStorageType=accounting_storage/none
    return
  fi
  echo JobAcctGatherType=jobacct_gather/linux
  echo JobAcctGatherFrequency=1
  echo AccountingStorageType=accounting_storage/slurmdbd
  echo AccountingStorageHost=localhost
  echo AccountingStorageTRES=gres/gpu
  echo AccountingStorageEnforce=associations
  echo JobSubmitPlugins=lua
}

slurmdbd_conf() { # LAB
  cat <<CONF
DbdHost=localhost
DbdPort=6819
SlurmUser=root
AuthType=auth/munge
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
PidFile=/run/slurmdbd.pid
LogFile=$1/log/slurmdbd.log
CONF
}

# A submit script like that of many sites.
job_submit_lua() {
  cat <<'LUA'
function slurm_job_submit(job, partitions, uid)
  if job.account == nil then
    slurm.log_user("This cluster needs an account: --account=NAME")
    return slurm.ESLURM_INVALID_ACCOUNT
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
LUA
}

modulefiles() { # LAB
  local entry
  for entry in lockstep-lab/1.0:LOCKSTEP_LAB_MODULE other/2.0:LOCKSTEP_LAB_OTHER; do
    local name=${entry%:*}
    mkdir -p "$1/modulefiles/${name%/*}"
    printf '#%%Module1.0\nsetenv %s %s\n' "${entry#*:}" "${name#*/}" >"$1/modulefiles/$name"
  done
}

gres_conf() {
  ((gpus == 0)) || echo "NodeName=n[1-$nodes] Name=gpu Type=fake" \
    "File=/dev/nvidia[0-$((gpus - 1))] Flags=nvidia_gpu_env"
}

# slurmd loads a cgroup plugin even if it is unused, and fails if no cgroup is mounted.
cgroup_conf() {
  local version
  version=$(slurmd -V | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
  if [[ $(printf '%s\n' 23.10 "$version" | sort -V | tail -n 1) == 23.10 ]]; then
    echo CgroupPlugin=cgroup/v1
  else
    echo CgroupPlugin=disabled
  fi
}

# By default, PMIx servers connect through ports that they choose. Use those of slurmd, because the
# firewall between nodes allows no others.
mpi_conf() {
  [[ $slurm_net == fab ]] || echo PMIxDirectConn=false
}

# Host names resolve to the management network, as on many clusters.
hosts() {
  local i
  echo "127.0.0.1 localhost"
  echo "::1 localhost ip6-localhost"
  echo "$mgmt.254 ctl"
  echo "$fab.254 ctl-fab"
  echo "$fab6:254 ctl-fab6"
  for ((i = 1; i <= nodes; i++)); do
    echo "$mgmt.$i n$i n$i.lab"
    echo "$fab.$i n$i-fab"
    echo "$fab6:$i n$i-fab6"
  done
}

# The users of the system, and the user of the lab.
users() { # LAB
  local home=$1/home/$user
  while cut -d: -f3 /etc/passwd /etc/group | grep -qx "$uid"; do uid=$((uid + 1)); done
  grep -v "^$user:" /etc/passwd >"$1/etc/passwd"
  grep -v "^$user:" /etc/group >"$1/etc/group"
  echo "$user:x:$uid:$uid::$home:/bin/bash" >>"$1/etc/passwd"
  echo "$user:x:$uid:" >>"$1/etc/group"
  grep -q ^sshd: "$1/etc/passwd" ||
    echo "sshd:x:64099:65534::/run/sshd:/usr/sbin/nologin" >>"$1/etc/passwd"
  # Without a shadow entry `su - USER` fails, and with it --export=NONE.
  awk -F: '{ print $1 ":*:19000:0:99999:7:::" }' "$1/etc/passwd" >"$1/etc/shadow"
  chmod 640 "$1/etc/shadow"
  mkdir -p "$home"
  # A login shell resets PATH.
  echo "PATH=\$PATH:$root/build/bin" >"$home/.profile"
  chown "$uid:$uid" "$home" "$home/.profile"
}

# One host key for all nodes, and one key for the user, whose home is shared.
ssh_keys() { # LAB
  local i names="ctl,ctl-fab,$mgmt.254,$fab.254" home=$1/home/$user
  for ((i = 1; i <= nodes; i++)); do
    names+=",n$i,n$i.lab,n$i-fab,n$i-fab6,$mgmt.$i,$fab.$i,$mgmt6:$i,$fab6:$i"
  done
  mkdir -p "$home/.ssh"
  ssh-keygen -q -t ed25519 -N '' -C lab -f "$1/etc/ssh_host_key"
  ssh-keygen -q -t ed25519 -N '' -C lab -f "$home/.ssh/id_ed25519"
  cp "$home/.ssh/id_ed25519.pub" "$home/.ssh/authorized_keys"
  echo "$names $(cut -d' ' -f1,2 "$1/etc/ssh_host_key.pub")" >"$home/.ssh/known_hosts"
  chmod 700 "$home/.ssh"
  chown -R "$uid:$uid" "$home/.ssh"
}

configure() { # LAB
  mkdir -p "$1"/{etc/slurm,log,ready,failed,pids,home}
  slurm_conf "$1" >"$1/etc/slurm/slurm.conf"
  gres_conf >"$1/etc/slurm/gres.conf"
  cgroup_conf >"$1/etc/slurm/cgroup.conf"
  mpi_conf >"$1/etc/slurm/mpi.conf"
  hosts >"$1/etc/hosts"
  : >"$1/etc/resolv.conf" # an unknown name fails immediately
  printf '%s: files\n' passwd group shadow hosts >"$1/etc/nsswitch.conf"
  users "$1"
  [[ $with_ssh == no ]] || ssh_keys "$1"
  [[ $with_modules == no ]] || modulefiles "$1"
  if [[ $with_accounts == yes ]]; then
    slurmdbd_conf "$1" >"$1/etc/slurmdbd.conf"
    job_submit_lua >"$1/etc/slurm/job_submit.lua"
  fi
  (umask 077 && head -c 1024 /dev/urandom >"$1/etc/munge.key")
}
