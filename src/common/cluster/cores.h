// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace lockstep::cluster {

// Number of cores for this process: its affinity mask, limited by the CPU quota of its cgroup,
// rounded down, at least one.
int granted_cores();

// The smallest CPU quota, in cores, from the cgroup of a process up to the root; nothing if none is
// set. `membership` is the text of /proc/PID/cgroup, `mount` the mount point of cgroups. Versions 1
// and 2 are supported.
std::optional<double> find_cpu_quota(std::string_view membership,
                                     const std::filesystem::path& mount);

}  // namespace lockstep::cluster
