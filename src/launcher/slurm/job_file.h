// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "launcher/config/yaml.h"
#include "launcher/slurm/job.h"

namespace lockstep::slurm {

bool is_url(const std::string& where);

// Reads a file, or downloads an https URL with curl. Throws an Error with its name.
std::string read_file_or_url(const std::string& where);

// Reads a job file as a map of keys. Throws an Error (64) if it is not a map or contains unknown
// keys.
config::TreeNode read_job_file(const std::string& where);

// Checks on this machine that the files of the job exist: image, virtual environment, program.
// Skips paths with variables, which only the job can expand. Throws an Error (64) with the missing
// file and the source of its path.
void check_files(const Job& job, const JobSettings& settings);

// Loads the modules of the job in a separate shell, if this machine has a module system. Throws an
// Error (64) for a module that cannot be loaded.
void check_modules(const Job& job, const JobSettings& settings);

}  // namespace lockstep::slurm
