// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/slurm/client.h"
#include "launcher/slurm/job.h"
#include "launcher/slurm/site.h"

namespace lockstep::cli {

// A job and its batch script.
struct Script {
  slurm::JobSettings settings;
  slurm::Job job;
  std::string text;
};

// A client whose sbatch passes the secrets of the jobs through the environment, so that they do not
// appear in batch scripts.
slurm::Client client_for(const std::vector<Script>& scripts);

// Checks that need no Slurm: keys that the site requires, files, and for a submission modules.
// Throws an Error (64).
void check_here(const Script& script, const std::optional<slurm::Site>& site, bool is_submission);

// Checks the jobs against the cluster and with sbatch --test-only. Throws an Error: 64 for a job
// that the cluster rejects, 69 if Slurm is not installed.
void check_there(const slurm::Client& client, const std::vector<Script>& scripts);

// Creates the log directories of the job; Slurm does not.
void make_log_directories(const slurm::Job& job);

// Saves the text as DIRECTORY/NAME.sh, or under the next free name, and returns its path.
std::string keep_script(const std::string& directory,
                        const std::string& name,
                        const std::string& text);

// A message with the job id, the log files and the commands to follow and cancel the job.
std::string describe_submission(const slurm::Job& job, const std::string& id);

}  // namespace lockstep::cli
