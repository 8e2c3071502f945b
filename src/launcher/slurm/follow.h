// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/slurm/job_info.h"

namespace lockstep::slurm {

// Progress of a followed job.
struct JobProgress {
  std::string headline;  // "job 12 is pending: all suitable nodes are busy (Resources)"
  std::string moment;    // changes continuously: "3 min 20 s of 01:00:00"; can be empty
};
JobProgress progress_of(std::span<const JobInfo> jobs);

// "3 min 20 s of 01:00:00"; empty if the run time is unknown.
std::string elapsed_of(const JobInfo& job);

// "job 12 has failed: exit code 5, after 3 min 20 s"; for an array, the number of tasks per state.
std::string end_sentence(std::span<const JobInfo> jobs);

// Interface of follow() to Slurm, clock and console. Tests replace it.
struct FollowMeans {
  // Current state of the job; can throw.
  std::function<std::vector<JobInfo>()> look;
  // Waits. Returns false if the user wants to leave.
  std::function<bool(std::chrono::milliseconds)> pause;
  std::function<double()> now;                   // seconds since the epoch
  std::function<void(const JobProgress&)> show;  // transient line
  std::function<void(const std::string&)> tell;  // permanent line
};

// Follows a job to its end and returns its exit code, see shell_code(). If the user leaves first,
// prints how to continue and returns nothing; the job continues. If Slurm becomes unreachable,
// retries for kPatienceSeconds. Throws an Error (64) if the job is unknown, and (69) if Slurm
// purged it in the meantime or stays unreachable.
inline constexpr double kPatienceSeconds = 600;
std::optional<int> follow(const std::string& id, const FollowMeans& means);

// Poll interval, `seconds` after the last change: short at first, then longer, to limit the load on
// the controller.
std::chrono::milliseconds pause_after(double seconds);

}  // namespace lockstep::slurm
