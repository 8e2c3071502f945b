// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

// The standard mount point of cgroups.
inline constexpr std::string_view kCgroupMount = "/sys/fs/cgroup";

// The directories of the cgroups of a process, from its own up to the root, for one controller
// ("cpu", "memory"). `membership` is the text of /proc/PID/cgroup; versions 1 and 2 are supported.
// Some directories may be missing: in a container, the path can refer to a group that is not
// mounted, and the root is that of the container.
std::vector<std::filesystem::path> cgroup_folders(std::string_view membership,
                                                  const std::filesystem::path& mount,
                                                  std::string_view controller);

// The text of a kernel file; empty if it cannot be read.
std::string read_kernel_text(const std::filesystem::path& path);

}  // namespace lockstep::cluster
