// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "common/contract/out_of_memory.h"

// Detects from kernel counters whether the OOM killer ended a process.
namespace lockstep::cluster {

// Number of OOM kills; absent if the kernel does not report it.
struct OomKills {
  // In the cgroup of this process, which is also that of its workers. The kernel counts the kill
  // there, whether the limit of the cgroup, of an ancestor or of the machine was exceeded.
  std::optional<int64_t> group;
  std::optional<int64_t> machine;

  bool operator==(const OomKills&) const = default;
};

OomKills count_oom_kills();

// Compares two counts. The kernel counts before it kills, so a count after the death of a worker
// includes it.
contract::OutOfMemory judge_oom(const OomKills& before, const OomKills& after);

// Number of OOM kills on this machine since boot; nothing if the kernel does not report it.
std::optional<int64_t> find_oom_kills();

// As above, from the text of /proc/vmstat, of memory.events of a cgroup (version 2) or of its
// memory.oom_control (version 1). All three have a line "oom_kill N".
std::optional<int64_t> find_oom_kills_in(std::string_view counters);

// The counter of the nearest cgroup that has one, from that of the process up to the root. In
// version 2, a cgroup includes the counts of its descendants. `membership` is the text of
// /proc/PID/cgroup, `mount` the mount point of cgroups.
std::optional<int64_t> find_group_oom_kills(std::string_view membership,
                                            const std::filesystem::path& mount);

}  // namespace lockstep::cluster
