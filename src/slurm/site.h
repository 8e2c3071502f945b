// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/yaml.h"
#include "os/environment.h"
#include "slurm/job_settings.h"

// What a cluster wants of all its jobs, as a file that its support team writes once: SITE.yaml with
//
//   description: JUWELS Booster
//   hosts: ["jwlogin*"]            on these machines it is taken without being asked for
//   required: [account]            keys without which no job is submitted
//   settings: {partition: booster} any key of a job file; the job's own file counts more
namespace lockstep::slurm {

struct Site {
  std::string name;  // of the file, without .yaml
  std::string description;
  std::vector<std::string> hosts;
  std::vector<std::string> required;
  config::Node settings;
  std::filesystem::path path;
};

// Where profiles lie, those that count more first: LOCKSTEP_SITES (directories between colons),
// ~/.config/lockstep/sites, and those that came with lockstep, `share`/sites.
std::vector<std::filesystem::path> site_directories(const os::Environment& environment,
                                                    const std::filesystem::path& share);

// Throws an Error (64) for a profile that is none.
Site read_site(const std::filesystem::path& path);

// Every profile, by name; of two with one name the first.
std::vector<Site> find_sites(const std::vector<std::filesystem::path>& directories);

// The profile called `name`. Throws an Error (64) with the closest one.
Site site_named(const std::string& name, const std::vector<Site>& sites);

// The first whose `hosts` match, '*' and '?' as in a shell.
std::optional<Site> find_site_of(const std::string& host, const std::vector<Site>& sites);

// Throws an Error (64) that names a key which the site requires and nobody has said.
void require_keys(const Site& site, const JobSettings& settings);

}  // namespace lockstep::slurm
