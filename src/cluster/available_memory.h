// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep::cluster {

// Bytes that processes of this node can still get: what the kernel calls available, cut to what
// the limits of this process's cgroups leave.
int64_t available_memory_bytes();

// The same from the texts of /proc/meminfo and /proc/self/cgroup.
int64_t available_memory_bytes(std::string_view meminfo,
                               std::string_view membership,
                               const std::filesystem::path& mount);

// Bytes that processes of this node may have in all: the machine's, or the least limit of this
// process's cgroups.
int64_t memory_limit_bytes(std::string_view meminfo,
                           std::string_view membership,
                           const std::filesystem::path& mount);

}  // namespace lockstep::cluster
