// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/job_options.h"
#include "slurm/job_settings.h"
#include "slurm/site.h"

namespace lockstep::cli {

// What is said of a job: a site's profile, over it the job's file, over it the command line.
struct JobLayers {
  slurm::JobSettings settings;
  std::optional<slurm::Site> site;
};

// Throws an Error (64) for a file, key or site that is none.
JobLayers read_job_layers(const std::optional<std::string>& file, const JobFlags& flags);

// Where site profiles are looked for, and those that are there.
std::vector<std::filesystem::path> places_of_sites();
std::vector<slurm::Site> known_sites();

}  // namespace lockstep::cli
