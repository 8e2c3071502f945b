// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.h"
#include "launcher/config/yaml.h"
#include "launcher/slurm/job_settings.h"

// Site profile: defaults and requirements of one cluster for all jobs, in a file SITE.yaml:
//
//   description: JUWELS Booster
//   hosts: ["jwlogin*"]            hosts on which the profile is selected automatically
//   required: [account]            keys that every job must set
//   settings: {partition: booster} any key of a job file; the job file overrides it
namespace lockstep::slurm {

struct Site {
  std::string name;  // file name without .yaml
  std::string description;
  std::vector<std::string> hosts;
  std::vector<std::string> required;
  config::TreeNode settings;
  std::filesystem::path path;
};

// Directories with profiles, in the order of precedence: LOCKSTEP_SITES (separated by colons),
// ~/.config/lockstep/sites, and `share`/sites of the installation.
std::vector<std::filesystem::path> site_directories(const os::Environment& environment,
                                                    const std::filesystem::path& share);

// Throws an Error (64) for an invalid profile.
Site read_site(const std::filesystem::path& path);

// All profiles. If two have the same name, the first one is used.
std::vector<Site> find_sites(const std::vector<std::filesystem::path>& directories);

// Profile with this name. Throws an Error (64) with the closest name.
Site site_named(const std::string& name, const std::vector<Site>& sites);

// First profile with a matching pattern in `hosts`; '*' and '?' as in a shell.
std::optional<Site> find_site_of(const std::string& host, const std::vector<Site>& sites);

// Throws an Error (64) if a key that the site requires is not set.
void require_keys(const Site& site, const JobSettings& settings);

}  // namespace lockstep::slurm
