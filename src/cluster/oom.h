// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

// Whether the kernel's OOM killer was the cause of a death, from the kernel's own counters.
namespace lockstep::cluster {

// How often the OOM killer has struck; absent where the kernel does not tell.
struct OomKills {
  // In this process's cgroup, which is also that of the workers it starts. The kernel counts there
  // whoever's limit it was, the cgroup's, an ancestor's or the machine's.
  std::optional<int64_t> group;
  std::optional<int64_t> machine;

  bool operator==(const OomKills&) const = default;
};

OomKills count_oom_kills();

enum class OomVerdict {
  No,
  Maybe,  // it struck on this machine, or nobody tells
  Yes,    // it struck in this cgroup
};

// What has happened between two counts. The kernel counts before it kills, so that a count after a
// worker's death is late enough.
OomVerdict judge_oom(const OomKills& before, const OomKills& after);

// How often the OOM killer has struck on this machine since it was started; nothing when the kernel
// does not tell.
std::optional<int64_t> find_oom_kills();

// The same from the text of /proc/vmstat, of a cgroup's memory.events (version 2) or of its
// memory.oom_control (version 1): all three have a line "oom_kill N".
std::optional<int64_t> find_oom_kills_in(std::string_view counters);

// Of the nearest cgroup that counts, from a process's own up to the root; in version 2 a cgroup
// counts for those below it. `membership` is the text of /proc/PID/cgroup, `mount` is where cgroups
// are mounted.
std::optional<int64_t> find_group_oom_kills(std::string_view membership,
                                            const std::filesystem::path& mount);

}  // namespace lockstep::cluster
