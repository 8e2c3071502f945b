// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/runs.h"
#include "slurm/client.h"

// Slurm jobs on the command line, where a run could be named too.
namespace lockstep::cli {

// Whether the word means a Slurm job: "123" or "123_4", and no run seen from `here` has that name.
bool means_job(const std::string& word, const std::filesystem::path& here);

struct Job {
  std::string id;                     // as it was asked for
  std::vector<slurm::JobInfo> tasks;  // one, or those of an array
  std::optional<Run> run;             // the newest run of lockstep's in it
};

// Throws an Error (64) when Slurm knows no such job.
Job job_named(const slurm::Client& client,
              const std::string& id,
              const std::filesystem::path& here);

// The newest run of a job, below the directory in which it runs, or below `here`.
std::optional<Run> find_run_of(const slurm::JobInfo& job, const std::filesystem::path& here);

// All about a job; an array as a table.
std::string job_page(const Job& job, double now);
std::string job_json(const Job& job, double now);

// Follows a job to its end with a progress line on stderr; its code, or nothing when the user
// leaves with Ctrl-C.
std::optional<int> follow_job(const std::string& id);

}  // namespace lockstep::cli
