// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/runs/runs.h"
#include "launcher/slurm/client.h"

// Slurm jobs as arguments of subcommands that accept RUN or JOBID.
namespace lockstep::cli {

// Whether the word is a Slurm job id, "123" or "123_4", and not the name of a run below `here`.
bool means_job(const std::string& word, const std::filesystem::path& here);

struct JobArgument {
  std::string id;                     // as given by the user
  std::vector<slurm::JobInfo> tasks;  // one task, or all tasks of an array
  std::optional<Run> run;             // newest lockstep run in the job
};

// Throws an Error (64) for a job that is unknown to Slurm.
JobArgument job_named(const slurm::Client& client,
                      const std::string& id,
                      const std::filesystem::path& here);

// The newest run of a job, below the working directory of the job or below `here`.
std::optional<Run> find_run_of(const slurm::JobInfo& job, const std::filesystem::path& here);

// The state of a job as text or JSON; an array is a table.
std::string job_page(const JobArgument& job, double now);
std::string job_json(const JobArgument& job, double now);

// Follows a job to its end with a progress line on stderr. Returns its exit code, or nothing after
// Ctrl-C.
std::optional<int> follow_job(const std::string& id);

}  // namespace lockstep::cli
