// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/environment.h"

// Loading libtorch costs half a second per process. A program built with lockstep can pay it once
// per node: the agent starts one process (the seed), which loads, forks every worker of the node
// before its first call of libtorch, tells the agent their process numbers, and leaves.
//
// The agent sets kForkOffer to "IN,OUT", two inherited descriptors: IN holds the offer as JSON (a
// file at its beginning), on OUT the seed writes one line "RANK PID" per worker. The workers become
// the agent's children, because the agent is their subreaper, as soon as the seed has left.
namespace lockstep::contract {

inline constexpr std::string_view kForkOffer = "LOCKSTEP_FORK_OFFER";

// A program that takes an offer carries an ELF note (section .note.lockstep) of this name and type.
inline constexpr std::string_view kForkNoteName = "lockstep";
inline constexpr int kForkNoteType = 1;

// What the seed must do for one worker between fork and going on.
struct ForkedWorker {
  int rank = 0;
  int stdout_fd = -1;
  int stderr_fd = -1;
  os::Environment variables;  // added to the seed's own

  bool operator==(const ForkedWorker&) const = default;
};

struct ForkOffer {
  int agent_pid = 0;  // the process that must become each worker's parent
  std::vector<ForkedWorker> workers;

  bool operator==(const ForkOffer&) const = default;
};

std::string to_json(const ForkOffer& offer);
ForkOffer parse_fork_offer(std::string_view json);

}  // namespace lockstep::contract
