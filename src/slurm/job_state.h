// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "os/process.h"

namespace lockstep::slurm {

// How a job is doing. What Slurm tells apart and nobody needs to (RESIZING, SIGNALING ...) is one.
enum class JobState {
  Pending,
  Configuring,  // its nodes are being booted
  Running,
  Suspended,
  Completing,  // Slurm clears up behind it
  Completed,
  Failed,
  Cancelled,
  TimedOut,
  NodeFailed,
  OutOfMemory,
  Preempted,
  Requeued,  // will wait again
  BootFailed,
  MissedDeadline,
  Unknown,  // a word that no Slurm known to us has
};

// Slurm's word, as any of its commands writes it: "RUNNING", "CANCELLED by 2001", "COMPLETED+".
JobState parse_job_state(std::string_view word);

// "timed out"
std::string_view name_of(JobState state);

// Whether nothing comes after it.
bool is_end(JobState state);

// Whether it has not begun, or not begun again.
bool is_waiting(JobState state);

// "5:0", a code and a signal. Text that is neither is 0.
os::ExitStatus parse_exit_code(std::string_view text);

// Slurm tells by this "signal" that it could not open the job's output file.
inline constexpr int kOutputSignal = 53;

// The job's end as a shell would tell it: its script's code, 128 + the signal that killed the
// script; 130 cancelled, 124 out of time or past its deadline, 137 out of memory, 75 preempted,
// 74 its output file could not be opened, 69 a node failed or did not boot. Of a job that has not
// ended: 0.
int shell_code(JobState state, const os::ExitStatus& exit);

}  // namespace lockstep::slurm
