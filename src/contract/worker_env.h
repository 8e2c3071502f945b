// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

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
  // The network interface of the gang's traffic; empty: 127.0.0.1 on one node, else the route to
  // master_addr.
  std::string interface;
  std::string run_id;
  // Where plan, logs, events and checkpoints lie; empty when nobody gave one.
  std::string run_directory;
  int attempt = 0;
  int max_restarts = 0;

  bool operator==(const WorkerPlace&) const = default;
};

// The variables of one worker: ours and torchrun's.
os::Environment to_environment(const WorkerPlace& place);

// The place that torchrun's variables describe (set by us or by torchrun); nothing when RANK and
// WORLD_SIZE are both absent. Throws an Error that names the variable if one does not parse or two
// contradict each other.
std::optional<WorkerPlace> find_place(const os::Environment& environment);

// A gang of one, with what the environment says of address, interface and run directory.
WorkerPlace place_alone(const os::Environment& environment);

// Reads one whole number in [least, most]; throws an Error that names the variable.
std::optional<int> find_number(const os::Environment& environment,
                               std::string_view name,
                               int least,
                               int most);

// Columns of the terminal that shows the gang's output; absent when there is none.
inline constexpr std::string_view kTerminalColumns = "LOCKSTEP_TERMINAL_COLUMNS";
// Where data sets lie.
inline constexpr std::string_view kDataDirectory = "LOCKSTEP_DATA_DIR";
// Least level of the log: debug, info, warn, error.
inline constexpr std::string_view kLogLevel = "LOCKSTEP_LOG_LEVEL";
// Moment at which the command was typed, in seconds since the epoch, for start-up times.
inline constexpr std::string_view kCommandTime = "LOCKSTEP_COMMAND_TIME";

}  // namespace lockstep::contract
