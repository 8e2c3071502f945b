// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "os/environment.h"

// What the launcher tells a worker, and a worker reads: the names of the variables exist here only.
namespace lockstep::contract {

// A worker's place in its gang.
struct WorkerPlace {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
  int nodes = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  bool has_agent_store = false;  // torchrun's agent serves the store there, not rank 0
  // The network interface of the gang's traffic; empty: 127.0.0.1 on one node, else the route to
  // master_addr.
  std::string interface;
  std::string run_id;
  // Where plan, logs, events and checkpoints lie; empty when nobody gave one.
  std::string run_directory;
  int attempt = 0;
  int max_restarts = 0;
  std::string role = "default";
  // Among the nodes that have a worker of this local rank: this one's number, and how many.
  int cross_rank = 0;
  int cross_size = 1;
  std::string node;        // the machine's name
  std::string error_file;  // where a Python worker may leave its exception; empty: nowhere
  // Where Horovod's workers meet, and all workers' host:port for TensorFlow; empty: not given.
  std::string horovod_addr;
  int horovod_port = 0;
  std::vector<std::string> tensorflow_cluster;
  // Which GID of a RoCE adapter carries the gang's traffic; absent: not RoCE, or NCCL's own choice.
  std::optional<int> roce_gid_index;

  bool operator==(const WorkerPlace&) const = default;
};

// The variables that tell a worker its place, in every dialect that training programs read:
// torchrun's, torch.distributed.launch's, horovodrun's, deepspeed's, Open MPI's, TensorFlow's and
// ours. They differ from worker to worker, so they replace whatever was there before.
os::Environment to_environment(const WorkerPlace& place);

// Advice that a worker gets only where nobody has said otherwise: which network interface to use,
// how Horovod shall talk, how NCCL tells errors. It does not tell one worker from another, and a
// user or a site that has set such a variable knows why. The caller adds it with
// `environment.merge(gentle_environment(place))`, which keeps what is there.
os::Environment gentle_environment(const WorkerPlace& place);

// Every name that to_environment() may set, for whoever refuses or removes them.
std::vector<std::string> place_variables();

// The place that torchrun's variables describe (set by us or by torchrun); nothing when RANK and
// WORLD_SIZE are both absent. Reads what workers of ours use; fields that only speak to others'
// programs (role, cross ranks, Horovod's and TensorFlow's) keep their defaults. Throws an Error
// that names the variable if one does not parse or two contradict each other.
std::optional<WorkerPlace> find_place(const os::Environment& environment);

// A gang of one, with what the environment says of address, interface and run directory. A
// GLOO_SOCKET_IFNAME of the user's stands above what the launcher has chosen.
WorkerPlace place_alone(const os::Environment& environment);

// Reads one whole number in [least, most]; throws an Error that names the variable.
std::optional<int> find_number(const os::Environment& environment,
                               std::string_view name,
                               int least,
                               int most);

// Set for every worker of ours, even where the run has no name: whoever has it is one, or was
// started by one.
inline constexpr std::string_view kRunId = "LOCKSTEP_RUN_ID";
// Columns of the terminal that shows the gang's output; absent when there is none.
inline constexpr std::string_view kTerminalColumns = "LOCKSTEP_TERMINAL_COLUMNS";
// Where data sets lie.
inline constexpr std::string_view kDataDirectory = "LOCKSTEP_DATA_DIR";
// Least level of the log: debug, info, warn, error.
inline constexpr std::string_view kLogLevel = "LOCKSTEP_LOG_LEVEL";
// Moment at which the command was typed, in seconds since the epoch, for start-up times.
inline constexpr std::string_view kCommandTime = "LOCKSTEP_COMMAND_TIME";

// How an agent that srun has started finds its leader, and with which keys; never left to workers.
inline constexpr std::string_view kMeeting = "LOCKSTEP_MEETING";
// Where processes that somebody else has started leave word for each other.
inline constexpr std::string_view kMeetingDirectory = "LOCKSTEP_MEETING_DIR";
// Known to all nodes of a run by hand that share no home directory; keys are made from it.
inline constexpr std::string_view kSecret = "LOCKSTEP_SECRET";

}  // namespace lockstep::contract
