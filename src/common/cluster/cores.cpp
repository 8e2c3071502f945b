// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/cores.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/cluster/cgroup.h"
#include "common/os/processors.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

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
  const std::vector<std::string> words = split(read_kernel_text(group / "cpu.max"), ' ');
  if (words.size() == 2) {
    return find_ratio(words[0], words[1].substr(0, words[1].find('\n')));
  }
  return find_ratio(first_word(group / "cpu.cfs_quota_us"),
                    first_word(group / "cpu.cfs_period_us"));
}

}  // namespace

std::optional<double> find_cpu_quota(std::string_view membership, const fs::path& mount) {
  std::optional<double> minimum;
  for (const fs::path& group : cgroup_folders(membership, mount, "cpu")) {
    if (const auto quota = find_quota_in(group)) {
      minimum = std::min(*quota, minimum.value_or(*quota));
    }
  }
  return minimum;
}

// The bound keeps a huge quota within the range of int; the mask is smaller in any case.
int granted_cores() {
  int cores = os::usable_processors();
  if (const auto quota = find_cpu_quota(read_kernel_text("/proc/self/cgroup"), kCgroupMount)) {
    cores = std::min(cores, static_cast<int>(std::min(*quota, 1e6)));
  }
  return std::max(cores, 1);
}

}  // namespace lockstep::cluster
