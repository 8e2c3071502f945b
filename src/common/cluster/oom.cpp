// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/oom.h"

#include <string>

#include "common/base/text.h"
#include "common/cluster/cgroup.h"

namespace lockstep::cluster {

using contract::OutOfMemory;

OomKills count_oom_kills() {
  return {.group = find_group_oom_kills(read_kernel_text("/proc/self/cgroup"), kCgroupMount),
          .machine = find_oom_kills()};
}

// The counter of the cgroup covers only this job, so that an increase is proof. The counter of the
// machine also covers other jobs: an increase is only a hint, but no increase is proof of the
// opposite.
OutOfMemory judge_oom(const OomKills& before, const OomKills& after) {
  if (before.group && after.group) {
    return *after.group > *before.group ? OutOfMemory::Yes : OutOfMemory::No;
  }
  if (before.machine && after.machine) {
    return *after.machine > *before.machine ? OutOfMemory::Perhaps : OutOfMemory::No;
  }
  return OutOfMemory::Perhaps;
}

std::optional<int64_t> find_oom_kills() {
  return find_oom_kills_in(read_kernel_text("/proc/vmstat"));
}

// The space at the end distinguishes "oom_kill 3" from "oom_kill_disable 0".
std::optional<int64_t> find_oom_kills_in(std::string_view counters) {
  constexpr std::string_view kName = "oom_kill ";
  for (const std::string& line : split(counters, '\n')) {
    if (line.starts_with(kName)) {
      return find_integer(std::string_view(line).substr(kName.size()));
    }
  }
  return std::nullopt;
}

std::optional<int64_t> find_group_oom_kills(std::string_view membership,
                                            const std::filesystem::path& mount) {
  for (const std::filesystem::path& group : cgroup_folders(membership, mount, "memory")) {
    for (const char* name : {"memory.events", "memory.oom_control"}) {
      if (const auto kills = find_oom_kills_in(read_kernel_text(group / name))) {
        return kills;
      }
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::cluster
