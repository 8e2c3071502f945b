// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "launcher/config/yaml.h"

namespace lockstep::cli {

// Values of job keys that were given on the command line.
using JobFlags = std::map<std::string, config::TreeNode>;

// Declares an option for each key of a job file except save_script and submit_job: the caller
// declares those. `flags` must outlive the parsing.
void add_job_options(CLI::App& app, JobFlags& flags);

}  // namespace lockstep::cli
