// SPDX-License-Identifier: Apache-2.0
//
// Follows a job by polling. One round:
//
//   look  ->  jobs          print a changed headline; all ended: return the exit code
//         ->  outage        print once, keep trying for kPatienceSeconds
//         ->  no job        unknown at first: error 64; known before: purged, error 69
//   pause                   false: the user left with Ctrl-C; the job continues
//
// Users cannot subscribe to changes of a job; the interval between polls grows with the time since
// the last change, so that a job that waits for days causes four requests per minute.
#include "launcher/slurm/follow.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>

#include "common/base/text.h"
#include "common/os/signals.h"
#include "launcher/slurm/reasons.h"
#include "launcher/slurm/time_limit.h"
#include "lockstep/error.h"

namespace lockstep::slurm {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kSecondsPerMinute = 60;

std::string nodes_of(const JobInfo& job) {
  if (job.nodes.empty()) {
    return "";
  }
  return job.node_count > 1 ? fmt::format(" on {} nodes, {}", job.node_count, job.nodes)
                            : fmt::format(" on {}", job.nodes);
}

std::string restart_of(const JobInfo& job) {
  return job.restarts == 0 ? "" : fmt::format(" (restart {})", job.restarts);
}

// The reason changes while a job waits (Priority, Resources); each change is a new headline. The
// estimate changes with every scheduling cycle and is therefore in the part that is overwritten.
JobProgress progress_of_waiting(const JobInfo& job) {
  std::string reason = job.reason.empty() ? "" : ": " + describe_reason(job.reason);
  if (is_hopeless(job.reason)) {
    reason += fmt::format("; try: {}", advice_for(job.reason, job.id));
  }
  const auto estimate = find_estimate(job);
  return {.headline = fmt::format("job {} is {}{}{}",
                                  job.id,
                                  job.restarts > 0 ? "requeued" : name_of(job.state),
                                  restart_of(job),
                                  reason),
          .moment = estimate ? fmt::format("expected to start at {}", *estimate) : ""};
}

JobProgress progress_of_one(const JobInfo& job) {
  if (is_waiting(job.state)) {
    return progress_of_waiting(job);
  }
  if (is_end(job.state)) {
    return {.headline = end_sentence({&job, 1}), .moment = ""};
  }
  const std::string state =
      job.state == JobState::Unknown ? job.state_word : std::string(name_of(job.state));
  return {
      .headline = fmt::format("job {} is {}{}{}", job.id, state, restart_of(job), nodes_of(job)),
      .moment = elapsed_of(job)};
}

// "2 completed, 1 failed"
std::string count_states(std::span<const JobInfo> jobs) {
  std::map<JobState, int> counts;
  for (const JobInfo& job : jobs) {
    ++counts[job.state];
  }
  std::vector<std::string> words;
  words.reserve(counts.size());
  for (const auto& [state, count] : counts) {
    words.push_back(fmt::format("{} {}", count, name_of(state)));
  }
  return join(words, ", ");
}

// "12_[5-9%2]" and "12_3" both belong to array 12.
std::string array_of(const JobInfo& job) {
  return job.id.substr(0, job.id.find('_'));
}

// If slurmstepd cannot open the output file, the job fails without any output. The usual cause is a
// missing log directory, so that it has its own sentence.
std::string how_it_failed(const JobInfo& job) {
  if (job.exit.signal == kOutputSignal && job.exit.code == 0) {
    return fmt::format("Slurm could not write the output file {}; does the directory exist?",
                       job.output);
  }
  if (job.exit.signal != 0) {
    return fmt::format("its script was killed by {}", os::signal_name(job.exit.signal));
  }
  return fmt::format("exit code {}", shell_code(job.state, job.exit));
}

// The end of a job, without its duration.
std::string end_of(const JobInfo& job) {
  switch (job.state) {
    case JobState::Completed:
      return "has completed";
    case JobState::Failed:
      return "has failed: " + how_it_failed(job);
    case JobState::Cancelled:
      return "was cancelled";
    case JobState::TimedOut:
      return job.limit_seconds && *job.limit_seconds != kUnlimited
                 ? fmt::format("reached its time limit of {}",
                               format_minutes(*job.limit_seconds / kSecondsPerMinute))
                 : "reached its time limit";
    case JobState::NodeFailed:
      return fmt::format("was ended by a node failure{}", nodes_of(job));
    case JobState::BootFailed:
      return fmt::format("has failed: a node did not boot{}", nodes_of(job));
    case JobState::OutOfMemory:
      return "ran out of memory: it used more than it requested";
    case JobState::Preempted:
      return "was preempted by a job with a higher priority";
    case JobState::MissedDeadline:
      return "has missed its deadline";
    default:
      return fmt::format("is {}", name_of(job.state));
  }
}

bool is_all_over(std::span<const JobInfo> jobs) {
  return std::all_of(
      jobs.begin(), jobs.end(), [](const JobInfo& job) { return is_end(job.state); });
}

[[noreturn]] void refuse(const std::string& id, bool was_seen) {
  if (was_seen) {
    throw Error(ExitCode::Unavailable,
                fmt::format("the result of job {} is unknown: Slurm has purged it", id))
        .fact("accounting", "no record", "sacct")
        .hint("see the output file of the job");
  }
  throw Error(ExitCode::Usage, fmt::format("job {} does not exist", id))
      .fact("Slurm reports", "unknown job id, or the job was purged", "scontrol, sacct")
      .hint("squeue --me lists your jobs");
}

// Polls Slurm until the job ends and reports changes.
class Following {
 public:
  Following(const std::string& id, const FollowMeans& means) : id_(id), means_(means) {}

  std::optional<int> follow() {
    changed_ = means_.now();
    for (;;) {
      if (const auto jobs = find_jobs()) {
        tell_progress(*jobs);
        if (is_all_over(*jobs)) {
          means_.tell(end_sentence(*jobs));
          return shell_code(*jobs);
        }
      }
      if (has_left_ || !means_.pause(pause_after(means_.now() - changed_))) {
        tell_leaving();
        return std::nullopt;
      }
    }
  }

 private:
  // Empty while Slurm is unreachable.
  std::optional<std::vector<JobInfo>> find_jobs() {
    try {
      std::vector<JobInfo> jobs = means_.look();
      if (jobs.empty()) {
        refuse(id_, was_seen_);
      }
      was_seen_ = true;
      silent_since_.reset();
      return jobs;
    } catch (const Error& error) {
      has_left_ = error.code() == ExitCode::Interrupted;
      if (has_left_) {
        return std::nullopt;
      }
      bear(error);
      return std::nullopt;
    }
  }

  // Rethrows an error, unless it is an outage that can end while we wait. The outages of Slurm are
  // recognized by their first words, see outages.cpp. The first poll must succeed: an outage at
  // that time is reported at once.
  void bear(const Error& error) {
    const double now = means_.now();
    const double since = silent_since_.value_or(now);
    const bool may_pass = error.code() == ExitCode::Unavailable && was_seen_ &&
                          error.sentence().starts_with("cannot reach");
    if (!may_pass || now - since > kPatienceSeconds) {
      throw Error(error);
    }
    if (!silent_since_) {
      means_.tell(fmt::format("{}; retrying", error.sentence()));
      silent_since_ = now;
    }
  }

  void tell_progress(const std::vector<JobInfo>& jobs) {
    const JobProgress progress = progress_of(jobs);
    if (progress.headline != headline_) {
      headline_ = progress.headline;
      changed_ = means_.now();
    }
    if (!is_all_over(jobs)) {
      means_.show(progress);
    }
  }

  void tell_leaving() {
    means_.tell(
        fmt::format("job {} continues; lockstep status --wait {} follows it, lockstep cancel {} "
                    "ends it",
                    id_,
                    id_,
                    id_));
  }

  const std::string& id_;
  const FollowMeans& means_;
  std::string headline_;
  double changed_ = 0;
  bool was_seen_ = false;
  bool has_left_ = false;
  std::optional<double> silent_since_;
};

}  // namespace

std::string elapsed_of(const JobInfo& job) {
  if (!job.run_seconds) {
    return "";
  }
  std::string elapsed = format_duration(static_cast<double>(*job.run_seconds));
  if (!job.limit_seconds || *job.limit_seconds == kUnlimited) {
    return elapsed;
  }
  return fmt::format("{} of {}", elapsed, format_minutes(*job.limit_seconds / kSecondsPerMinute));
}

JobProgress progress_of(std::span<const JobInfo> jobs) {
  if (jobs.size() == 1) {
    return progress_of_one(jobs.front());
  }
  if (jobs.empty()) {
    return {};
  }
  return {.headline = fmt::format("array {}: {}", array_of(jobs.front()), count_states(jobs)),
          .moment = ""};
}

std::string end_sentence(std::span<const JobInfo> jobs) {
  if (jobs.size() != 1) {
    return jobs.empty()
               ? ""
               : fmt::format("array {} has ended: {}", array_of(jobs.front()), count_states(jobs));
  }
  const JobInfo& job = jobs.front();
  const std::string time =
      job.run_seconds && *job.run_seconds > 0
          ? fmt::format(", after {}", format_duration(static_cast<double>(*job.run_seconds)))
          : "";
  return fmt::format("job {} {}{}", job.id, end_of(job), time);
}

// A tenth of the elapsed time: a change is noticed with a delay of at most 10 %.
milliseconds pause_after(double seconds) {
  constexpr double kShare = 0.1;  // poll interval relative to the time since the last change
  constexpr double kMinimum = 300;
  constexpr double kMaximum = 15000;
  return milliseconds(
      static_cast<int64_t>(std::clamp(seconds * 1000 * kShare, kMinimum, kMaximum)));
}

std::optional<int> follow(const std::string& id, const FollowMeans& means) {
  return Following(id, means).follow();
}

}  // namespace lockstep::slurm
