// SPDX-License-Identifier: Apache-2.0
#include "cli/job_cancel.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/text.h"
#include "lockstep/error.h"
#include "slurm/follow.h"

namespace lockstep::cli {
namespace {

using slurm::JobInfo;
using std::chrono::milliseconds;

// Slurm gives a job KillWait, 30 s unless a site says otherwise, and then clears up.
constexpr double kTimeToEnd = 120;
// What a script may still do behind a run that was stopped.
constexpr double kTimeAfterRun = 10;
constexpr milliseconds kPause(300);

bool is_over(const std::vector<JobInfo>& tasks) {
  return std::all_of(
      tasks.begin(), tasks.end(), [](const JobInfo& task) { return slurm::is_end(task.state); });
}

// Whether the run's launcher is there to be asked.
bool can_be_asked(const Run& run, double now) {
  return run.state && contract::sign_of(*run.state, now) == contract::Sign::Alive;
}

// Waits until the job is over, at most `seconds`; how it is then.
std::vector<JobInfo> wait_for_end(const slurm::Client& client,
                                  const Job& job,
                                  double seconds,
                                  const CancelVoice& voice) {
  std::vector<JobInfo> tasks = job.tasks;
  const double begin = voice.clock.now();
  for (double now = begin; now - begin <= seconds; now = voice.clock.now()) {
    std::vector<JobInfo> current = client.find_jobs(job.id);
    // One that Slurm has forgotten is over, however it was when last seen.
    if (current.empty()) {
      return {};
    }
    tasks = std::move(current);
    if (is_over(tasks)) {
      break;
    }
    voice.wait(
        fmt::format("{}, {}", slurm::progress_of(tasks).headline, format_duration(now - begin)));
    voice.clock.sleep(kPause);
  }
  return tasks;
}

}  // namespace

void cancel_job(const slurm::Client& client,
                const Job& job,
                const CancelWishes& wishes,
                const CancelVoice& voice) {
  if (is_over(job.tasks)) {
    voice.tell(slurm::end_sentence(job.tasks) + "; nothing was left to cancel");
    return;
  }
  const bool asks_run = job.run && !wishes.is_now && can_be_asked(*job.run, voice.clock.now());
  if (wishes.grace_seconds && !asks_run) {
    throw Error(ExitCode::Usage, fmt::format("cannot give job {} a grace", job.id))
        .fact("found", "no run of lockstep's in it; Slurm's own KillWait counts", "runs")
        .hint(fmt::format("lockstep cancel {}", job.id));
  }
  std::vector<JobInfo> tasks = job.tasks;
  if (asks_run) {
    cancel_run(*job.run, wishes, voice.clock, voice.tell, voice.wait);
    tasks = wait_for_end(client, job, kTimeAfterRun, voice);
  }
  if (!is_over(tasks)) {
    client.cancel(job.id);
    voice.tell(fmt::format("asked Slurm to end job {}", job.id));
    tasks = wait_for_end(client, job, kTimeToEnd, voice);
  }
  if (!is_over(tasks)) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot see job {} end", job.id))
        .fact("state", slurm::progress_of(tasks).headline, "scontrol")
        .hint(fmt::format("lockstep status {}", job.id));
  }
  voice.tell(tasks.empty() ? fmt::format("job {} is gone", job.id) : slurm::end_sentence(tasks));
}

}  // namespace lockstep::cli
