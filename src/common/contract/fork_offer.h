// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.h"

// Loading libtorch takes half a second per process. A program built with lockstep can do it once
// per node: the agent starts one process, the fork server, which loads libtorch, forks all workers
// of the node before its first call into libtorch, reports their process numbers to the agent, and
// exits.
//
// The agent sets kForkOffer to "IN,OUT", two inherited descriptors. IN contains the offer as JSON
// (a file, positioned at its beginning). On OUT, the fork server writes one line "RANK PID" per
// worker. The agent is a subreaper, so the workers become its children when the fork server exits.
namespace lockstep::contract {

inline constexpr std::string_view kForkOffer = "LOCKSTEP_FORK_OFFER";

// A program that accepts an offer has an ELF note (section .note.lockstep) of this name and type.
inline constexpr std::string_view kForkNoteName = "lockstep";
inline constexpr int kForkNoteType = 1;

// What the fork server does for one worker after fork.
struct ForkedWorker {
  int rank = 0;
  int stdout_fd = -1;
  int stderr_fd = -1;
  os::Environment variables;  // added to the environment of the fork server

  bool operator==(const ForkedWorker&) const = default;
};

struct ForkOffer {
  int agent_pid = 0;  // the process that becomes the parent of each worker
  std::vector<ForkedWorker> workers;

  bool operator==(const ForkOffer&) const = default;
};

std::string to_json(const ForkOffer& offer);
ForkOffer parse_fork_offer(std::string_view json);

}  // namespace lockstep::contract
