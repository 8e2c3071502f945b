// SPDX-License-Identifier: Apache-2.0
//
// Site profiles are found in three places; a file name that occurs in an earlier one hides later
// ones:
//
//   $LOCKSTEP_SITES              directories, separated by colons
//   ~/.config/lockstep/sites     or $XDG_CONFIG_HOME
//   share/lockstep/sites         installed profiles
#include "launcher/slurm/site.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/os/files.h"
#include "launcher/config/value.h"
#include "launcher/slurm/keys.h"

namespace lockstep::slurm {
namespace {

namespace fs = std::filesystem;

// '*' matches any text, '?' any character. Recursive matching; patterns are short and come from
// trusted files.
bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) {
    return text.empty();
  }
  if (pattern.front() == '*') {
    return matches(pattern.substr(1), text) || (!text.empty() && matches(pattern, text.substr(1)));
  }
  const bool is_same = !text.empty() && (pattern.front() == '?' || pattern.front() == text.front());
  return is_same && matches(pattern.substr(1), text.substr(1));
}

std::vector<fs::path> profiles_in(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code ignored;  // no such directory: no profiles
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.path().extension() == ".yaml") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> list_of(const config::TreeNode& map, const char* key) {
  const config::TreeNode* node = map.find(key);
  return node == nullptr ? std::vector<std::string>{} : config::read_list(*node, key);
}

}  // namespace

std::vector<fs::path> site_directories(const os::Environment& environment, const fs::path& share) {
  std::vector<fs::path> directories;
  for (const std::string& one :
       split(os::find_variable(environment, "LOCKSTEP_SITES").value_or(""), ':')) {
    if (!one.empty()) {
      directories.emplace_back(one);
    }
  }
  if (const auto config = os::find_variable(environment, "XDG_CONFIG_HOME");
      config && !config->empty()) {
    directories.push_back(fs::path(*config) / "lockstep/sites");
  } else if (const auto home = os::find_variable(environment, "HOME")) {
    directories.push_back(fs::path(*home) / ".config/lockstep/sites");
  }
  directories.push_back(share / "sites");
  return directories;
}

Site read_site(const fs::path& path) {
  static const std::vector<std::string> kKnown = {"description", "hosts", "required", "settings"};
  const config::TreeNode map = config::parse_yaml(os::read_file(path), path.string());
  config::require_known(map, kKnown);
  Site site;
  site.path = path;
  site.name = path.stem().string();
  if (const config::TreeNode* text = map.find("description")) {
    site.description = config::read_text(*text, "description");
  }
  site.hosts = list_of(map, "hosts");
  site.required = list_of(map, "required");
  for (const std::string& key : site.required) {
    if (find_key(key) == nullptr) {
      throw config::invalid_value(*map.find("required"), "required", "keys of a job file")
          .fact("unknown", key);
    }
  }
  if (const config::TreeNode* settings = map.find("settings")) {
    config::require_known(*settings, key_names());
    site.settings = *settings;
  }
  return site;
}

std::vector<Site> find_sites(const std::vector<fs::path>& directories) {
  std::vector<Site> sites;
  for (const fs::path& directory : directories) {
    for (const fs::path& path : profiles_in(directory)) {
      const bool is_hidden = std::any_of(sites.begin(), sites.end(), [&path](const Site& site) {
        return site.name == path.stem();
      });
      if (!is_hidden) {
        sites.push_back(read_site(path));
      }
    }
  }
  return sites;
}

Site site_named(const std::string& name, const std::vector<Site>& sites) {
  std::vector<std::string> names;
  for (const Site& site : sites) {
    if (site.name == name) {
      return site;
    }
    names.push_back(site.name);
  }
  Error error(ExitCode::Usage, fmt::format("site '{}' does not exist", name));
  error.fact("sites", names.empty() ? "none" : join(names, ", "));
  if (const auto closest = find_closest(name, names)) {
    error.hint(fmt::format("site: {}", *closest));
  } else {
    error.hint(fmt::format("create ~/.config/lockstep/sites/{}.yaml", name));
  }
  throw Error(error);
}

std::optional<Site> find_site_of(const std::string& host, const std::vector<Site>& sites) {
  for (const Site& site : sites) {
    for (const std::string& pattern : site.hosts) {
      if (matches(pattern, host)) {
        return site;
      }
    }
  }
  return std::nullopt;
}

// A site can require keys that have no sensible default there, usually the account.
void require_keys(const Site& site, const JobSettings& settings) {
  for (const std::string& key : site.required) {
    if (!settings.has(key)) {
      throw Error(ExitCode::Usage, fmt::format("{} is required", key))
          .fact("required by", fmt::format("site {}", site.name), site.path.string())
          .hint(fmt::format("{} NAME, or '{}: NAME' in the job file", flag_of(key), key));
    }
  }
}

}  // namespace lockstep::slurm
