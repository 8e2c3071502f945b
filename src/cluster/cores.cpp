// SPDX-License-Identifier: Apache-2.0
#include "cluster/cores.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/text.h"
#include "os/processors.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<double> find_ratio(std::string_view quota, std::string_view period) {
  const auto above = find_integer(quota);
  const auto below = find_integer(period);
  if (!above || !below || *above <= 0 || *below <= 0) {
    return std::nullopt;  // "max" and -1 mean: no quota
  }
  return static_cast<double>(*above) / static_cast<double>(*below);
}

std::string first_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Version 2 has one file, "QUOTA PERIOD"; version 1 has two.
std::optional<double> find_quota_in(const fs::path& group) {
  const std::vector<std::string> words = split(read_text(group / "cpu.max"), ' ');
  if (words.size() == 2) {
    return find_ratio(words[0], words[1].substr(0, words[1].find('\n')));
  }
  return find_ratio(first_word(group / "cpu.cfs_quota_us"),
                    first_word(group / "cpu.cfs_period_us"));
}

// In a container the path may name a group that is not mounted; the walk up then ends at the root,
// which is the container's own group.
std::optional<double> find_least_quota(const fs::path& mount, fs::path group) {
  std::optional<double> least;
  for (;;) {
    if (const auto quota = find_quota_in(mount / group.relative_path())) {
      least = std::min(*quota, least.value_or(*quota));
    }
    if (!group.has_relative_path()) {
      return least;
    }
    group = group.parent_path();
  }
}

}  // namespace

std::optional<double> find_cpu_quota(std::string_view membership, const fs::path& mount) {
  std::optional<double> least;
  const auto consider = [&least](std::optional<double> quota) {
    if (quota) {
      least = std::min(*quota, least.value_or(*quota));
    }
  };
  for (const std::string& line : split(membership, '\n')) {
    // "0::/path" is version 2; "4:cpu,cpuacct:/path" is version 1.
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    const std::vector<std::string> names = split(controllers, ',');
    if (controllers.empty()) {
      consider(find_least_quota(mount, group));
    } else if (std::find(names.begin(), names.end(), "cpu") != names.end()) {
      const fs::path together = mount / controllers;
      consider(find_least_quota(fs::exists(together) ? together : mount / "cpu", group));
    }
  }
  return least;
}

int granted_cores() {
  int cores = os::usable_processors();
  if (const auto quota = find_cpu_quota(read_text("/proc/self/cgroup"), "/sys/fs/cgroup")) {
    cores = std::min(cores, static_cast<int>(std::min(*quota, 1e6)));
  }
  return std::max(cores, 1);
}

}  // namespace lockstep::cluster
