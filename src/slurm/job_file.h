// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "config/yaml.h"
#include "slurm/job.h"

namespace lockstep::slurm {

// The text of a file, or of a URL through curl. Throws an Error that names it.
std::string read_file_or_url(const std::string& where);

// A job's file, as a map of keys. Throws an Error (64) for one that is no map, and for keys that do
// not exist.
config::Node read_job_file(const std::string& where);

// Whether what the job needs is there, seen from this machine: the image, the virtual environment,
// the modules, the files of its program. Paths with a variable in them are the job's own affair.
// Throws an Error (64) that says what is missing and who asked for it.
void check_files(const Job& job, const JobSettings& settings);

// The modules are loaded here too, in a shell of their own, where this machine has a module system.
void check_modules(const Job& job, const JobSettings& settings);

}  // namespace lockstep::slurm
