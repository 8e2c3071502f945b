// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "config/yaml.h"

namespace lockstep::cli {

// What the command line says about a job, by key of a job file.
using JobFlags = std::map<std::string, config::Node>;

// Declares a flag for each key of a job file, but for save_script and submit_job, which have short
// names of their own. `flags` must outlive the parsing.
void add_job_options(CLI::App& app, JobFlags& flags);

}  // namespace lockstep::cli
