// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/jobs.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fmt/format.h>

#include "common/base/clock.h"
#include "common/os/environment.h"
#include "common/os/pipe.h"
#include "common/os/signals.h"
#include "launcher/cli/progress_line.h"
#include "launcher/slurm/follow.h"
#include "lockstep/error.h"

namespace lockstep::cli {

namespace fs = std::filesystem;

// A directory or run with a numeric name wins over a job ID: it is here and can be seen.
bool means_job(const std::string& word, const fs::path& here) {
  if (!slurm::is_job_id(word) || is_run(here / word)) {
    return false;
  }
  const std::vector<Run> runs = find_runs(here);
  return std::none_of(runs.begin(), runs.end(), [&word](const Run& run) {
    return run.name == word || (run.state && run.state->run_id == word);
  });
}

JobArgument job_named(const slurm::Client& client, const std::string& id, const fs::path& here) {
  JobArgument job{.id = id, .tasks = client.find_jobs(id), .run = std::nullopt};
  if (job.tasks.empty()) {
    throw Error(ExitCode::Usage, fmt::format("cannot find the job or run '{}'", id))
        .fact("Slurm", "job unknown, or no longer in its records", "scontrol, sacct")
        .fact("searched", (here / "runs").string())
        .hint("list your jobs with squeue --me, or runs with lockstep status");
  }
  if (job.tasks.size() == 1) {
    job.run = find_run_of(job.tasks.front(), here);
  }
  return job;
}

// The directory of the job first: the user may have another one open. raw_id is the ID of the
// single task of an array, which is what SLURM_JOB_ID contains and state.json stores.
std::optional<Run> find_run_of(const slurm::JobInfo& job, const fs::path& here) {
  for (const fs::path& place : {fs::path(job.directory), here}) {
    if (place.empty()) {
      continue;
    }
    for (Run& run : find_runs(place)) {
      if (run.state && !job.raw_id.empty() && run.state->slurm_job == job.raw_id) {
        return std::move(run);
      }
    }
  }
  return std::nullopt;
}

// The signals are blocked before the first question to Slurm, so that Ctrl-C ends the wait and not
// the process: the exit code and the hint about the job are still printed.
std::optional<int> follow_job(const std::string& id) {
  os::SignalFd signals({SIGINT, SIGTERM});
  const slurm::Client client(os::environment(), {.stop_fd = signals.fd()});
  ProgressLine line;
  const auto code =
      slurm::follow(id,
                    {.look = [&] { return client.find_jobs(id); },
                     .pause =
                         [&](std::chrono::milliseconds time) {
                           std::array<os::Watch, 1> watch = {os::Watch{.fd = signals.fd()}};
                           os::wait_for(watch, time);
                           return !watch[0].is_ready;
                         },
                     .now = wall_time,
                     .show = [&](const slurm::JobProgress& progress) { line.show(progress); },
                     .tell =
                         [&](const std::string& text) {
                           line.tell(text);
                         }});
  // Consume pending signals, so that they are not delivered when they are unblocked.
  while (signals.find_pending()) {
  }
  return code;
}

}  // namespace lockstep::cli
