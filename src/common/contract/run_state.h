// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/run_directory.h"
#include "common/os/process_identity.h"

// RUN/state.json: the current state of a run for all readers of its directory, written by the
// leader.
namespace lockstep::contract {

enum class RunPhase { Starting, Running, Stopping, Restarting, Done, Failed, Cancelled, Requeued };

// "running"
std::string_view name_of(RunPhase phase);

// Whether the state is final.
bool is_end(RunPhase phase);

// A node of the current attempt.
struct RunNode {
  std::string name;
  int workers = 0;
  std::string interface;  // of its address; empty if there is one node
  std::string address;

  bool operator==(const RunNode&) const = default;
};

// Times are seconds since the epoch, from the clock of the leader.
struct RunState {
  std::string run_id;
  RunPhase phase = RunPhase::Starting;
  std::string host;              // host of the leader
  os::ProcessIdentity launcher;  // process of the leader
  int attempt = 0;
  std::vector<RunNode> nodes;
  int world_size = 0;
  double grace_seconds = 0;
  double started = 0;
  double updated = 0;  // at least every kHeartbeatSeconds
  std::optional<double> ended;
  std::optional<int> exit_code;
  std::string slurm_job;  // empty: none

  bool operator==(const RunState&) const = default;
};

inline constexpr double kHeartbeatSeconds = 5;
// A leader that does not update the state for so long counts as lost.
inline constexpr double kSilenceSeconds = 30;

std::string to_json(const RunState& state);

// Throws an Error (74) if the text is not a state.
RunState parse_run_state(std::string_view json);

// Replaces RUN/state.json atomically. Does not wait for the disk, so that it takes well under a
// millisecond. Throws an Error (74).
void write_state(const RunDirectory& run, const RunState& state);

// Nothing if there is no state. Throws an Error (74) if it cannot be read.
std::optional<RunState> find_state(const RunDirectory& run);

// Liveness of a run as seen from this machine.
enum class Sign {
  Ended,
  Alive,
  Gone,    // on this machine, and its process does not exist
  Silent,  // on another machine, and not updated for kSilenceSeconds
};
Sign sign_of(const RunState& state, double now);

// RUN/cancel: a request to stop the run. The leader checks for it twice a second, and removes one
// left over from an earlier run before it starts.
struct CancelRequest {
  std::string who;  // user@host
  double time = 0;
  bool is_now = false;  // SIGKILL immediately
  std::optional<double> grace_seconds;

  bool operator==(const CancelRequest&) const = default;
};

std::string to_json(const CancelRequest& request);
CancelRequest parse_cancel_request(std::string_view json);
void write_cancel(const RunDirectory& run, const CancelRequest& request);

// A request that cannot be read still counts: as a request with the default grace period.
std::optional<CancelRequest> find_cancel(const RunDirectory& run);

}  // namespace lockstep::contract
