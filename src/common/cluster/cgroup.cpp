// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/cgroup.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "common/base/text.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

// "/slurm/uid_1000/job_7" yields that folder and its three ancestors, ending with the mount point.
void add_up_to_root(const fs::path& mount, fs::path group, std::vector<fs::path>& folders) {
  for (;;) {
    folders.push_back(mount / group.relative_path());
    if (!group.has_relative_path()) {
      return;
    }
    group = group.parent_path();
  }
}

}  // namespace

std::vector<fs::path> cgroup_folders(std::string_view membership,
                                     const fs::path& mount,
                                     std::string_view controller) {
  std::vector<fs::path> folders;
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
      add_up_to_root(mount, group, folders);
    } else if (std::find(names.begin(), names.end(), controller) != names.end()) {
      // Controllers of version 1 that are mounted together have a folder "cpu,cpuacct"; most
      // distributions also have a link for each of them.
      const fs::path together = mount / controllers;
      add_up_to_root(fs::exists(together) ? together : mount / controller, group, folders);
    }
  }
  return folders;
}

std::string read_kernel_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace lockstep::cluster
