// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep::cluster {

// Bytes that processes of this node can still allocate: MemAvailable of the kernel, limited by the
// remaining memory of the cgroups of this process.
int64_t available_memory_bytes();

// As above, from the text of /proc/meminfo and /proc/self/cgroup.
int64_t available_memory_bytes(std::string_view meminfo,
                               std::string_view membership,
                               const std::filesystem::path& mount);

// Total memory for the processes of this node in bytes: that of the machine, or the smallest limit
// of the cgroups of this process.
int64_t memory_limit_bytes(std::string_view meminfo,
                           std::string_view membership,
                           const std::filesystem::path& mount);

}  // namespace lockstep::cluster
