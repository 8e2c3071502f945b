// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/watched_run.h"

#include <filesystem>
#include <fmt/format.h>

#include "common/base/clock.h"
#include "common/os/environment.h"
#include "launcher/cli/runs/jobs.h"
#include "lockstep/error.h"

namespace lockstep::cli {

Run watched_run(const std::string& word) {
  const std::filesystem::path here = std::filesystem::current_path();
  if (!means_job(word, here)) {
    return run_named(word, here);
  }
  const slurm::Client client(os::environment());
  const JobArgument job = job_named(client, word, here);
  if (!job.run) {
    throw Error(ExitCode::Usage, fmt::format("cannot find a run of job {}", word))
        .fact("found",
              job.tasks.size() > 1 ? "a job array" : "no lockstep run in the job, or not yet",
              "runs")
        .hint(job.tasks.size() > 1 ? fmt::format("{}_1, one task of the array", word)
                                   : fmt::format("lockstep status {}", word));
  }
  return *job.run;
}

// A run without lockstep has no state; the end event of rank 0 is its end. If rank 0 was killed,
// there is none, and the run counts as running.
bool has_ended(const contract::RunDirectory& run, const monitor::EventStore& store) {
  if (const auto state = contract::find_state(run)) {
    return contract::sign_of(*state, wall_time()) != contract::Sign::Alive;
  }
  const std::vector<monitor::RankView> ranks = store.snapshot().ranks;
  return !ranks.empty() && ranks.front().rank == 0 && ranks.front().has_ended;
}

}  // namespace lockstep::cli
