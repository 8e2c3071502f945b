// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/job_state.h"

namespace lockstep::slurm {

// A job as Slurm tells of it. Times are Slurm's own text, local ("2026-11-15T09:08:43"); empty
// texts are not known, or not yet.
struct JobInfo {
  std::string id;      // "123"; of a task of an array "123_4", of tasks that wait "123_[5-9%2]"
  std::string raw_id;  // the number that the job itself has as SLURM_JOB_ID
  std::string name;
  std::string user;
  std::string partition;
  std::string account;
  JobState state = JobState::Unknown;
  std::string state_word;  // Slurm's
  std::string reason;      // Slurm's word for why it waits, or ended so
  int restarts = 0;
  os::ExitStatus exit;
  std::string nodes;  // "n[1-2]"
  int node_count = 0;
  std::string submitted;
  std::string started;  // of one that waits: Slurm's estimate
  std::string ended;
  std::optional<int64_t> run_seconds;
  std::optional<int64_t> limit_seconds;  // kUnlimited: none
  std::string directory;                 // where it was submitted, and runs
  std::string output;                    // the file of its stdout
  std::string errors;                    // the file of its stderr; often the same
  std::string command;

  bool operator==(const JobInfo&) const = default;
};

// "123" or "123_4", which no file or run need be called.
bool is_job_id(std::string_view word);

// What `scontrol -o show job ID` prints: a line for each job, of which an array has many.
std::vector<JobInfo> parse_jobs(std::string_view text);

// What `sacct` prints when asked for kAccountingFields with -n -P -X.
inline constexpr std::string_view kAccountingFields =
    "JobID,JobIDRaw,JobName,User,Partition,Account,State,ExitCode,Submit,Start,End,Elapsed,"
    "Timelimit,NodeList,NNodes,Reason,WorkDir";
std::vector<JobInfo> parse_accounting(std::string_view text);

// Slurm's estimate of a start that is worth telling; where jobs have no time limit it may be
// centuries away.
std::optional<std::string> find_estimate(const JobInfo& job);

// The end of a job, or of all tasks of an array, as a shell tells it: the highest code.
int shell_code(std::span<const JobInfo> jobs);

}  // namespace lockstep::slurm
