// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slurm/client.h"
#include "slurm/job.h"
#include "slurm/site.h"

namespace lockstep::cli {

// A job, and the script that runs it.
struct Script {
  slurm::JobSettings settings;
  slurm::Job job;
  std::string text;
};

// Slurm's commands, with the secrets that jobs shall find in their environment.
slurm::Client client_for(const std::vector<Script>& scripts);

// What can be said about a job without Slurm: keys that the site requires, files, modules. Throws
// an Error (64).
void check_here(const Script& script, const std::optional<slurm::Site>& site);

// What the cluster has, and what sbatch says to it. Throws an Error (64), or (69) where there is no
// Slurm to ask.
void check_there(const slurm::Client& client, const std::vector<Script>& scripts);

// Makes the directories of the job's logs, which Slurm does not.
void make_log_directories(const slurm::Job& job);

// Keeps the text as DIRECTORY/NAME.sh under a name that is free; its path.
std::string keep_script(const std::string& directory,
                        const std::string& name,
                        const std::string& text);

// What was submitted, where it writes, and what to type next.
std::string describe_submission(const slurm::Job& job, const std::string& id);

}  // namespace lockstep::cli
