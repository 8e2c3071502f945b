// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/slurm/job_state.h"

namespace lockstep::slurm {

// State of a job, as reported by Slurm. Times are local, in the format of Slurm
// ("2026-11-15T09:08:43"). Unknown values are empty.
struct JobInfo {
  std::string id;      // "123"; array task "123_4", pending tasks "123_[5-9%2]"
  std::string raw_id;  // SLURM_JOB_ID inside the job
  std::string name;
  std::string user;
  std::string partition;
  std::string account;
  JobState state = JobState::Unknown;
  std::string state_word;  // as printed by Slurm
  std::string reason;      // why the job is pending or has ended, as printed by Slurm
  int restarts = 0;
  os::ExitStatus exit;
  std::string nodes;  // "n[1-2]"
  int node_count = 0;
  std::string submitted;
  std::string started;  // pending job: estimate of Slurm
  std::string ended;
  std::optional<int64_t> run_seconds;
  std::optional<int64_t> limit_seconds;  // kUnlimited: none
  std::string directory;                 // working directory
  std::string output;                    // file of stdout
  std::string errors;                    // file of stderr; often the same
  std::string command;

  bool operator==(const JobInfo&) const = default;
};

// Whether the word has the form "123" or "123_4".
bool is_job_id(std::string_view word);

// Parses the output of `scontrol -o show job ID`: one line per job or array task.
std::vector<JobInfo> parse_jobs(std::string_view text);

// Parses the output of `sacct -n -P -X -o kAccountingFields`.
inline constexpr std::string_view kAccountingFields =
    "JobID,JobIDRaw,JobName,User,Partition,Account,State,ExitCode,Submit,Start,End,Elapsed,"
    "Timelimit,NodeList,NNodes,Reason,WorkDir";
std::vector<JobInfo> parse_accounting(std::string_view text);

// Estimated start of a pending job. Empty for an implausible estimate: without time limits, Slurm
// can estimate a start centuries ahead.
std::optional<std::string> find_estimate(const JobInfo& job);

// Exit code of a job, or the highest exit code of the tasks of an array.
int shell_code(std::span<const JobInfo> jobs);

}  // namespace lockstep::slurm
