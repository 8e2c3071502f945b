// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slurm/job_info.h"

namespace lockstep::slurm {

// What is told of a job that is followed.
struct Progress {
  std::string headline;  // "job 12 is pending: all suitable nodes are busy (Resources)"
  std::string moment;    // what changes all the time: "3 min 20 s of 01:00:00"; may be empty
};
Progress progress_of(std::span<const JobInfo> jobs);

// "3 min 20 s of 01:00:00"; empty when nobody tells.
std::string elapsed_of(const JobInfo& job);

// "job 12 has failed: exit code 5, after 3 min 20 s"; of an array how many ended how.
std::string end_sentence(std::span<const JobInfo> jobs);

// What following needs from the world; a test makes it go faster.
struct FollowMeans {
  // The job as Slurm tells it now; may throw.
  std::function<std::vector<JobInfo>()> look;
  // Waits; false when the user wants to leave.
  std::function<bool(std::chrono::milliseconds)> pause;
  std::function<double()> now;                   // seconds since the epoch
  std::function<void(const Progress&)> show;     // for the moment
  std::function<void(const std::string&)> tell;  // a line that stays
};

// Follows a job until it has ended and returns its code (shell_code), or, when the user leaves
// first, says how to go on and returns nothing: the job goes on. Slurm may be out of reach for a
// while: it is asked again for kPatienceSeconds. Throws an Error (64) for a job that nobody knows,
// and (69) for one that Slurm has forgotten meanwhile, or when Slurm does not come back.
inline constexpr double kPatienceSeconds = 600;
std::optional<int> follow(const std::string& id, const FollowMeans& means);

// How long to wait before Slurm is asked again, `seconds` after the last change: often at first,
// and never so often that a controller minds.
std::chrono::milliseconds pause_after(double seconds);

}  // namespace lockstep::slurm
