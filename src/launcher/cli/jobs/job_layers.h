// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/jobs/job_options.h"
#include "launcher/slurm/job_settings.h"
#include "launcher/slurm/site.h"

namespace lockstep::cli {

// The settings of a job from three layers: the command line overrides the job file, which overrides
// the site profile.
struct JobLayers {
  slurm::JobSettings settings;
  std::optional<slurm::Site> site;
};

// Throws an Error (64) for an unreadable file, an unknown key or an unknown site.
JobLayers read_job_layers(const std::optional<std::string>& file, const JobFlags& flags);

// The directories that are searched for site profiles, and the profiles in them.
std::vector<std::filesystem::path> site_directories();
std::vector<slurm::Site> known_sites();

}  // namespace lockstep::cli
