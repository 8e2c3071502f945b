// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/job_cancel.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/slurm/follow.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

using slurm::JobInfo;
using std::chrono::milliseconds;

// Slurm waits KillWait (30 s by default) between SIGTERM and SIGKILL, then runs its epilog.
constexpr double kTimeToEnd = 120;
// Time for the rest of the batch script after its run was stopped.
constexpr double kTimeAfterRun = 10;
constexpr milliseconds kPause(300);

bool is_over(const std::vector<JobInfo>& tasks) {
  return std::all_of(
      tasks.begin(), tasks.end(), [](const JobInfo& task) { return slurm::is_end(task.state); });
}

// Whether the launcher of the run is alive and can process a request.
bool can_be_asked(const Run& run, double now) {
  return run.state && contract::sign_of(*run.state, now) == contract::Sign::Alive;
}

// Waits at most `seconds` until the job has ended and returns its last known state.
std::vector<JobInfo> wait_for_end(const slurm::Client& client,
                                  const JobArgument& job,
                                  double seconds,
                                  const CancelContext& context) {
  std::vector<JobInfo> tasks = job.tasks;
  const double begin = context.clock.now();
  for (double now = begin; now - begin <= seconds; now = context.clock.now()) {
    std::vector<JobInfo> current = client.find_jobs(job.id);
    // Slurm forgets only jobs that have ended.
    if (current.empty()) {
      return {};
    }
    tasks = std::move(current);
    if (is_over(tasks)) {
      break;
    }
    context.wait(
        fmt::format("{}, {}", slurm::progress_of(tasks).headline, format_duration(now - begin)));
    context.clock.sleep(kPause);
  }
  return tasks;
}

}  // namespace

//   run in the job alive?  -- no, or --now ------------------------+
//        | yes                                                     |
//   cancel_run(): workers save a checkpoint and end                |
//        |                                                         |
//   job ended within kTimeAfterRun? -- yes --> done                |
//        | no: the batch script has more commands                  |
//        +------------------> scancel, wait kTimeToEnd <-----------+
//
// Stopping the run first gives its workers the grace period of the run instead of KillWait.
void cancel_job(const slurm::Client& client,
                const JobArgument& job,
                const CancelOptions& options,
                const CancelContext& context) {
  if (is_over(job.tasks)) {
    context.tell(slurm::end_sentence(job.tasks) + "; nothing to cancel");
    return;
  }
  const bool asks_run = job.run && !options.is_now && can_be_asked(*job.run, context.clock.now());
  if (options.grace_seconds && !asks_run) {
    throw Error(ExitCode::Usage, fmt::format("--grace has no effect on job {}", job.id))
        .fact("found", "no lockstep run in the job; the KillWait of Slurm applies", "runs")
        .hint(fmt::format("lockstep cancel {}", job.id));
  }
  std::vector<JobInfo> tasks = job.tasks;
  if (asks_run) {
    cancel_run(*job.run, options, context.clock, context.tell, context.wait);
    tasks = wait_for_end(client, job, kTimeAfterRun, context);
  }
  if (!is_over(tasks)) {
    client.cancel(job.id);
    context.tell(fmt::format("requested Slurm to cancel job {}", job.id));
    tasks = wait_for_end(client, job, kTimeToEnd, context);
  }
  if (!is_over(tasks)) {
    throw Error(ExitCode::Unavailable, fmt::format("timed out waiting for job {} to end", job.id))
        .fact("state", slurm::progress_of(tasks).headline, "scontrol")
        .hint(fmt::format("lockstep status {}", job.id));
  }
  context.tell(tasks.empty() ? fmt::format("job {} has ended", job.id)
                             : slurm::end_sentence(tasks));
}

}  // namespace lockstep::cli
