// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace lockstep::cluster {

// Cores that this process may use: its affinity mask, cut to the CPU quota of its cgroup. At least
// one; 1.5 cores of quota are one core.
int granted_cores();

// The least quota, in cores, on the way from a process's cgroup up to the root; nothing when none
// is set. `membership` is the text of /proc/PID/cgroup, `mount` is where cgroups are mounted;
// versions 1 and 2 are both read.
std::optional<double> find_cpu_quota(std::string_view membership,
                                     const std::filesystem::path& mount);

}  // namespace lockstep::cluster
