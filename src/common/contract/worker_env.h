// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.h"

// The variables that the launcher sets for a worker and that the worker reads. Their names exist
// here only.
namespace lockstep::contract {

// The rank of a worker and what it needs to join its process group.
struct WorkerSpec {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
  int nodes = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  bool has_agent_store = false;  // the agent of torchrun serves the store there, not rank 0
  // The network interface for traffic between workers. Empty: 127.0.0.1 on one node, otherwise the
  // interface of the route to master_addr.
  std::string interface;
  std::string run_id;
  // Directory of plan, logs, events and checkpoints; empty if there is none.
  std::string run_directory;
  int attempt = 0;
  int max_restarts = 0;
  std::string role = "default";
  // Rank and number of nodes among those that have a worker with this local rank.
  int cross_rank = 0;
  int cross_size = 1;
  std::string node;  // host name
  // File for the exception of a Python worker, or for an error that a worker does not print. Empty:
  // none, or no agent of lockstep reads it.
  std::string error_file;
  // Address of Horovod's rendezvous, and host:port of all workers for TensorFlow; empty: not set.
  std::string horovod_addr;
  int horovod_port = 0;
  std::vector<std::string> tensorflow_cluster;
  // GID index of the RoCE adapter for this traffic; absent: not RoCE, or chosen by NCCL.
  std::optional<int> roce_gid_index;

  bool operator==(const WorkerSpec&) const = default;
};

// The rank variables of a worker in the dialects of torchrun, torch.distributed.launch, horovodrun,
// deepspeed, Open MPI, TensorFlow and lockstep. They differ between workers, so they replace
// existing values.
os::Environment to_environment(const WorkerSpec& spec);

// Settings that a worker gets only if they are not set already: the network interface, the
// transport of Horovod, the error handling of NCCL, the server of PyTorch's store. They are equal
// for all workers, and a user or a site that sets such a variable has a reason. The caller adds
// them with `environment.merge(gentle_environment(spec))`, which keeps existing values.
os::Environment gentle_environment(const WorkerSpec& spec);

// The rank from the variables of torchrun (set by lockstep or torchrun); nothing if both RANK and
// WORLD_SIZE are absent. Reads only the fields that lockstep workers use; those for other programs
// (role, cross ranks, Horovod, TensorFlow) keep their defaults. Throws an Error that names the
// variable if a value is invalid or two values conflict.
std::optional<WorkerSpec> find_worker(const os::Environment& environment);

// A single process, with address, interface and run directory from the environment. A
// GLOO_SOCKET_IFNAME set by the user overrides the choice of the launcher.
WorkerSpec single_worker(const os::Environment& environment);

// Reads a whole number in [minimum, maximum]; throws an Error that names the variable.
std::optional<int> find_number(const os::Environment& environment,
                               std::string_view name,
                               int minimum,
                               int maximum);

// Set for every worker of lockstep, even if the run has no name. A process that has it is a worker
// or a descendant of one.
inline constexpr std::string_view kRunId = "LOCKSTEP_RUN_ID";
// Width of the terminal that shows the output, in columns; absent without a terminal.
inline constexpr std::string_view kTerminalColumns = "LOCKSTEP_TERMINAL_COLUMNS";
// Directory of data sets.
inline constexpr std::string_view kDataDirectory = "LOCKSTEP_DATA_DIR";
// Minimum log level: debug, info, warn, error.
inline constexpr std::string_view kLogLevel = "LOCKSTEP_LOG_LEVEL";
// Time at which the command was entered, in seconds since the epoch, for start-up times.
inline constexpr std::string_view kCommandTime = "LOCKSTEP_COMMAND_TIME";

// Number of threads of a worker, as OpenMP reads it; libtorch, NumPy and BLAS libraries follow.
inline constexpr std::string_view kThreads = "OMP_NUM_THREADS";
// Its value if the user does not set it: the granted cores of the node, shared by its workers.
int threads_per_worker(int cores, int local_world_size);

// Address of the leader and keys, for an agent that srun started; never passed to workers.
inline constexpr std::string_view kRendezvous = "LOCKSTEP_MEETING";
// Directory in which processes started by another launcher publish the address of the leader.
inline constexpr std::string_view kRendezvousDirectory = "LOCKSTEP_MEETING_DIR";
// Shared secret of the nodes of a manual run without a common home directory; derives the keys.
inline constexpr std::string_view kSecret = "LOCKSTEP_SECRET";

}  // namespace lockstep::contract
