// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/run_directory.h"
#include "os/process_identity.h"

// How a run is doing, for everyone who sees its directory: RUN/state.json, written by its leader.
namespace lockstep::contract {

enum class RunPhase { Starting, Running, Stopping, Restarting, Done, Failed, Cancelled, Requeued };

// "running"
std::string_view name_of(RunPhase phase);

// Whether nothing comes after it.
bool is_end(RunPhase phase);

// A node of the attempt that runs.
struct RunNode {
  std::string name;
  int workers = 0;
  std::string interface;  // by which it is reached; empty on one node
  std::string address;

  bool operator==(const RunNode&) const = default;
};

// Times are seconds since the epoch, by the leader's clock.
struct RunState {
  std::string run_id;
  RunPhase phase = RunPhase::Starting;
  std::string host;              // where the leader runs
  os::ProcessIdentity launcher;  // the leader's process
  int attempt = 0;
  std::vector<RunNode> nodes;
  int world_size = 0;
  double grace_seconds = 0;
  double started = 0;
  double updated = 0;  // also while nothing happens, every kHeartbeatSeconds
  std::optional<double> ended;
  std::optional<int> exit_code;
  std::string slurm_job;  // empty: none

  bool operator==(const RunState&) const = default;
};

inline constexpr double kHeartbeatSeconds = 5;
// Who has been silent for so long is lost.
inline constexpr double kSilenceSeconds = 30;

std::string to_json(const RunState& state);

// Throws an Error (74) if the text is no state.
RunState parse_run_state(std::string_view json);

// Replaces RUN/state.json: a reader sees the old one or the new one. Does not wait for the disk, so
// it costs a leader well under a millisecond. Throws an Error (74).
void write_state(const RunDirectory& run, const RunState& state);

// Nothing where there is no state; throws an Error (74) when there is one that cannot be read.
std::optional<RunState> find_state(const RunDirectory& run);

// What can be known about a run from here.
enum class Sign {
  Ended,
  Alive,
  Gone,    // on this machine, and its process is not there
  Silent,  // on another machine, and not heard of for kSilenceSeconds
};
Sign sign_of(const RunState& state, double now);

// RUN/cancel: somebody wants the run to stop. The leader looks for it twice a second, and removes
// what an earlier run has left there before it starts.
struct CancelRequest {
  std::string who;  // user@host
  double time = 0;
  bool is_now = false;  // SIGKILL at once
  std::optional<double> grace_seconds;

  bool operator==(const CancelRequest&) const = default;
};

std::string to_json(const CancelRequest& request);
CancelRequest parse_cancel_request(std::string_view json);
void write_cancel(const RunDirectory& run, const CancelRequest& request);

// One that cannot be read still is one: it asks to stop gently.
std::optional<CancelRequest> find_cancel(const RunDirectory& run);

}  // namespace lockstep::contract
