// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Captured output of Slurm 22.05 in the lab; paths are changed.
namespace lockstep::testing {

// One line of `scontrol -o show job`, with some of its fields changed: " Key=value" pairs.
inline const std::string kRunningJob =
    "JobId=4 JobName=wrap UserId=hpc(2001) GroupId=hpc(2001) MCS_label=N/A Priority=4294901756 "
    "Nice=0 Account=(null) QOS=(null) JobState=RUNNING Reason=None Dependency=(null) Requeue=1 "
    "Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:06 TimeLimit=365-00:00:00 "
    "TimeMin=N/A SubmitTime=2026-11-15T09:08:42 EligibleTime=2026-11-15T09:08:42 "
    "AccrueTime=2026-11-15T09:08:42 StartTime=2026-11-15T09:08:43 EndTime=2027-11-15T09:08:43 "
    "Deadline=N/A SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-15T09:08:43 "
    "Scheduler=Backfill Partition=main AllocNode:Sid=ctl:0 ReqNodeList=(null) ExcNodeList=(null) "
    "NodeList=n1 BatchHost=n1 NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:* "
    "TRES=cpu=1,node=1,billing=1 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=1 "
    "MinMemoryNode=0 MinTmpDiskNode=0 Features=(null) DelayBoot=00:00:00 OverSubscribe=OK "
    "Contiguous=0 Licenses=(null) Network=(null) Command=(null) WorkDir=/home/hpc "
    "StdErr=/home/hpc/slurm-4.out StdIn=/dev/null StdOut=/home/hpc/slurm-4.out Power= \n";

inline const std::string kPendingJob =
    "JobId=18 JobName=wrap UserId=hpc(2001) GroupId=hpc(2001) MCS_label=N/A Priority=4294901745 "
    "Nice=0 Account=(null) QOS=(null) JobState=PENDING Reason=PartitionTimeLimit Dependency=(null) "
    "Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:00 TimeLimit=00:05:00 "
    "TimeMin=N/A SubmitTime=2026-11-15T09:08:44 EligibleTime=2026-11-15T09:08:44 "
    "AccrueTime=2026-11-15T09:08:44 StartTime=Unknown EndTime=Unknown Deadline=N/A "
    "SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-15T09:08:44 Scheduler=Main "
    "Partition=short AllocNode:Sid=ctl:0 ReqNodeList=(null) ExcNodeList=(null) NodeList= "
    "NumNodes=9-9 NumCPUs=9 NumTasks=9 CPUs/Task=1 ReqB:S:C:T=0:0:*:* "
    "TRES=cpu=9,mem=36000M,node=9,billing=9 Command=(null) WorkDir=/home/hpc "
    "StdErr=/home/hpc/slurm-18.out StdIn=/dev/null StdOut=/home/hpc/slurm-18.out Power= \n";

inline const std::string kArray =
    "JobId=6 ArrayJobId=6 ArrayTaskId=3-5%2 ArrayTaskThrottle=2 JobName=wrap UserId=hpc(2001) "
    "JobState=PENDING Reason=JobArrayTaskLimit Restarts=0 ExitCode=0:0 RunTime=00:00:00 "
    "TimeLimit=UNLIMITED StartTime=Unknown EndTime=Unknown Partition=main NodeList= NumNodes=1 "
    "WorkDir=/home/hpc StdErr=/home/hpc/slurm-6_4294967294.out StdOut=/home/hpc/a-%A_%a.out \n"
    "JobId=9 ArrayJobId=6 ArrayTaskId=2 ArrayTaskThrottle=2 JobName=wrap UserId=hpc(2001) "
    "JobState=RUNNING Reason=None Restarts=0 ExitCode=0:0 RunTime=00:01:06 TimeLimit=UNLIMITED "
    "StartTime=2026-11-15T09:08:43 EndTime=Unknown Partition=main NodeList=n2 NumNodes=1 "
    "WorkDir=/home/hpc StdErr=/home/hpc/a-%A_%a.out StdOut=/home/hpc/a-%A_%a.out \n"
    "JobId=8 ArrayJobId=6 ArrayTaskId=1 ArrayTaskThrottle=2 JobName=wrap UserId=hpc(2001) "
    "JobState=FAILED Reason=NonZeroExitCode Restarts=0 ExitCode=3:0 RunTime=00:00:07 "
    "TimeLimit=UNLIMITED StartTime=2026-11-15T09:08:43 EndTime=2026-11-15T09:08:50 Partition=main "
    "NodeList=n2 NumNodes=1 WorkDir=/home/hpc StdOut=/home/hpc/slurm-6_1.out \n";

inline const std::string kPartitions =
    "PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES "
    "QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO "
    "MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] "
    "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE "
    "PreemptMode=OFF State=UP TotalCPUs=8 TotalNodes=2 SelectTypeParameters=NONE "
    "JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED "
    "TRES=cpu=8,mem=8000M,node=2,billing=8\n"
    "PartitionName=short AllowGroups=ALL AllowAccounts=bio,physics AllowQos=ALL AllocNodes=ALL "
    "Default=NO QoS=N/A DefaultTime=00:01:00 MaxNodes=1 MaxTime=00:02:00 MinNodes=1 "
    "MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] State=UP TotalCPUs=8 TotalNodes=2 "
    "TRES=cpu=8,mem=8000M,node=2,billing=8\n";

inline const std::string kNodes =
    "NodeName=n1 Arch=aarch64 CoresPerSocket=4  CPUAlloc=0 CPUEfctv=4 CPUTot=4 CPULoad=1.65 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:fake:2 NodeAddr=10.12.0.1 "
    "NodeHostName=n1 Version=22.05.8 OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=4000 "
    "AllocMem=0 FreeMem=19803 Sockets=1 Boards=1 State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 "
    "Owner=N/A MCS_label=N/A Partitions=main,short  BootTime=2026-11-15T02:21:01 "
    "CfgTRES=cpu=4,mem=4000M,billing=4 AllocTRES= CapWatts=n/a\n"
    // 24.11: more fields, among them reasons with spaces.
    "NodeName=n2 Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUEfctv=126 CPUTot=128 CPULoad=0.01 "
    "AvailableFeatures=a100,nvlink ActiveFeatures=a100,nvlink Gres=gpu:a100:4(S:0,2),shard:8 "
    "NodeAddr=n2 NodeHostName=n2 Version=24.11.5 OS=Linux 6.12 #1 SMP RealMemory=512000 AllocMem=0 "
    "FreeMem=400000 Sockets=2 Boards=1 State=DOWN+DRAIN+NOT_RESPONDING ThreadsPerCore=2 TmpDisk=0 "
    "Weight=1 Owner=N/A MCS_label=N/A Partitions=main BootTime=2026-11-15T02:21:01 "
    "CfgTRES=cpu=128,mem=500G,billing=128,gres/gpu=4 AllocTRES= CurrentWatts=0 AveWatts=0 "
    "Reason=Not responding [slurm@2026-11-15T09:00:00]\n";

inline const std::string kConfig =
    "Configuration data as of 2026-11-15T09:08:41\n"
    "AccountingStorageEnforce = none\n"
    "AccountingStorageType   = accounting_storage/none\n"
    "ClusterName             = lab\n"
    "JobSubmitPlugins        = (null)\n"
    "MinJobAge               = 300 sec\n"
    "SlurmctldHost[0]        = ctl(10.12.0.254)\n"
    "SLURM_VERSION           = 22.05.8\n"
    "\n"
    "MPI Plugins Configuration:\n"
    "PMIxCliTmpDirBase       = (null)\n"
    "\n"
    "Slurmctld(primary) at ctl is UP\n";

}  // namespace lockstep::testing
