// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/os/process.h"

namespace lockstep::slurm {

// State of a job. States of Slurm that need no distinction (RESIZING, SIGNALING) are merged.
enum class JobState {
  Pending,
  Configuring,  // nodes are booting
  Running,
  Suspended,
  Completing,  // Slurm cleans up
  Completed,
  Failed,
  Cancelled,
  TimedOut,
  NodeFailed,
  OutOfMemory,
  Preempted,
  Requeued,  // pending again
  BootFailed,
  MissedDeadline,
  Unknown,  // not a known word of Slurm
};

// Parses a state as printed by any Slurm command: "RUNNING", "CANCELLED by 2001", "COMPLETED+".
JobState parse_job_state(std::string_view word);

// Name for users: "timed out".
std::string_view name_of(JobState state);

// Whether the state is final.
bool is_end(JobState state);

// Whether the job is waiting for its start or restart.
bool is_waiting(JobState state);

// Parses "5:0", exit code and signal. Invalid text gives 0.
os::ExitStatus parse_exit_code(std::string_view text);

// Slurm reports this "signal" if it could not open the output file of the job.
inline constexpr int kOutputSignal = 53;

// Exit code for a finished job: the code of its script, or 128 + the signal that killed the script;
// 130 cancelled, 124 time limit or deadline, 137 out of memory, 75 preempted, 74 output file could
// not be opened, 69 node failure or boot failure. 0 for a job that has not ended.
int shell_code(JobState state, const os::ExitStatus& exit);

}  // namespace lockstep::slurm
