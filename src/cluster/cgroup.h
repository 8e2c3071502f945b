// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

// Where cgroups are mounted, on every system of today.
inline constexpr std::string_view kCgroupMount = "/sys/fs/cgroup";

// The folders of a process's cgroups, from its own up to the root, for one controller ("cpu",
// "memory"). `membership` is the text of /proc/PID/cgroup; versions 1 and 2 are both read. Some may
// not exist: in a container the path may name a group that is not mounted, and the root is then the
// container's own.
std::vector<std::filesystem::path> cgroup_folders(std::string_view membership,
                                                  const std::filesystem::path& mount,
                                                  std::string_view controller);

// The text of a file of the kernel's; empty when it cannot be read.
std::string read_kernel_text(const std::filesystem::path& path);

}  // namespace lockstep::cluster
